"""The nodes file of a subgraph: its inputs and its kernels, in an order in which they can be computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import Field

from nnhal_mlip.flow.files.extension import StrictPart, SubgraphExtension, ValueExtension
from nnhal_mlip.flow.files.kernel_attributes import Extents
from nnhal_mlip.flow.files.layers import LayerAttributes
from nnhal_mlip.flow.files.scalars import Count, Integer, Word, Words

Id: TypeAlias = Annotated[int, Field(strict=True, ge=0)]


class NodeEdge(NamedTuple):
    """A result that a kernel reads, or that leaves the subgraph."""

    node: Id
    """The id of an input or of a kernel: its position in the file."""
    output: Id
    """Which result of it."""
    version: Annotated[int, Field(strict=True, ge=0, le=0)] = 0
    """Always 0."""


class InputAttributes(StrictPart):
    layer_name: Word
    """``input``"""
    shape: tuple[Extents]
    dtype: Words
    data_layout: Word = ""
    """NHWC, NCHW or NC; empty for other ranks."""
    nnhal: ValueExtension | None = None


class InputNode(StrictPart):
    """A value that the subgraph is given."""

    op: Literal["input"]
    name: str
    """``mrvl_<number of the subgraph>_i<number of the input>``"""
    input_id: Integer
    inputs: tuple[()]
    attrs: InputAttributes

    @property
    def user_name(self) -> str:
        """The value's name in the user's model if the file has it, for messages."""
        return self.attrs.nnhal.value if self.attrs.nnhal else self.name


class KernelNode(StrictPart):
    """A layer of the accelerator."""

    op: Literal["tvm_op"]
    name: str
    """``tvmgen_mrvl_main_<number of the kernel>``"""
    inputs: tuple[NodeEdge, ...]
    """Without constants."""
    attrs: LayerAttributes

    @property
    def layer(self) -> str:
        """The kind of the layer: ``Conv2D``."""
        return self.attrs.layer_name

    @property
    def user_name(self) -> str:
        """The names of the user's nodes if the file has them, for messages."""
        return ", ".join(self.attrs.nnhal.user_names if self.attrs.nnhal else ()) or self.name


SubgraphNode: TypeAlias = Annotated[InputNode | KernelNode, Field(discriminator="op")]


class SubgraphAttributes(StrictPart):
    """Shapes and element types, one for each node."""

    shape: tuple[Literal["list_shape"], tuple[Extents, ...]]
    dltype: tuple[Literal["list_str"], tuple[str, ...]]


class NodesFile(StrictPart):
    """The nodes file in TVM's form. Attributes are Python's values; the JSON text has them as lists of strings."""

    symbol: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    batch_size: Count
    """The batch size of the last input: see ``batch_of``."""
    num_subgraph_inputs: Count
    num_subgraph_outputs: Count
    arg_nodes: tuple[Id, ...]
    heads: tuple[NodeEdge, ...]
    attrs: SubgraphAttributes
    nodes: tuple[SubgraphNode, ...]
    nnhal: SubgraphExtension | None = None

    @property
    def inputs(self) -> tuple[InputNode, ...]:
        return tuple(node for node in self.nodes if isinstance(node, InputNode))

    @property
    def kernels(self) -> tuple[KernelNode, ...]:
        """The kernels, in an order in which they can be computed."""
        return tuple(node for node in self.nodes if isinstance(node, KernelNode))


def batch_of(shape: Sequence[int]) -> int:
    """Return the batch of a tensor: its first extent, 1 if it has one axis or none."""
    return shape[0] if len(shape) > 1 else 1


def nodes_schema() -> dict[str, Any]:
    return NodesFile.model_json_schema(by_alias=True)
