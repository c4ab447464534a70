"""A kernel of a partition on its way into the nodes file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any, NoReturn

from nnhal_mlip.flow.errors import FlowFilesError
from nnhal_mlip.flow.files.constants_file import ConstantPool
from nnhal_mlip.flow.files.kernel_attributes import ConstantObject
from nnhal_mlip.flow.files.layers import LayerAttributes
from nnhal_mlip.flow.flow_partition import FlowKernel
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode
from nnhal_mlip.flow.graph.operators import TABLES, Operator

_ACTIVATIONS = (Operator.RELU, Operator.CLIP, *TABLES)


@dataclass(frozen=True)
class KernelDraft:
    """Values that the description of a kernel reads."""

    graph: FlowGraph
    kernel: FlowKernel
    name: str
    """In the nodes file."""
    pool: ConstantPool
    layouts: Mapping[str, str]
    """The layout of each value of the graph."""

    @cached_property
    def place(self) -> str:
        """Return where an error is: the layer by the user's names."""
        users = ", ".join(self.kernel.user_names) or self.kernel.output
        return f"layer '{users}' ({self.kernel.operator})"

    @cached_property
    def main(self) -> FlowNode:
        """The node that gives the layer its name."""
        for node in self.kernel.nodes:
            if node.operator == self.kernel.operator:
                return node
        found = ", ".join(node.operator for node in self.kernel.nodes)
        return self.refuse(f"operators {found}", f"one of them to be {self.kernel.operator}")

    @cached_property
    def before(self) -> tuple[FlowNode, ...]:
        return self.kernel.nodes[: self.kernel.nodes.index(self.main)]

    @cached_property
    def after(self) -> tuple[FlowNode, ...]:
        """The nodes behind the main node, without activations at the end."""
        return self._behind[: max(0, len(self._behind) - len(self.activations))]

    @cached_property
    def activations(self) -> tuple[FlowNode, ...]:
        nodes = (self.main, *self._behind) if self.main.operator in _ACTIVATIONS else self._behind
        count = next((i for i, node in enumerate(reversed(nodes)) if node.operator not in _ACTIVATIONS), len(nodes))
        return nodes[len(nodes) - count :]

    @cached_property
    def data(self) -> str:
        """The value that the layer reads, if it reads one that is no constant."""
        first = self.before[0] if self.before else self.main
        if first.inputs[0] in self.graph.constants:
            self.refuse(f"constant '{first.inputs[0]}' as its data", "a value that is computed")
        return first.inputs[0]

    @cached_property
    def range(self) -> tuple[float, float]:
        low, high = -inf, inf
        for node in self.activations:
            if node.operator in TABLES:
                continue
            least, most = (0.0, inf) if node.operator == Operator.RELU else (node.real("a_min"), node.real("a_max"))
            low, high = min(max(low, least), most), min(max(high, least), most)
        return low, high

    @cached_property
    def table(self) -> FlowNode | None:
        """The activation that a table computes; it is alone."""
        found = next((node for node in self.activations if node.operator in TABLES), None)
        if found and len(self.activations) > 1:
            self.refuse(f"'{found.name}' ({found.operator}) with other activations", "one activation")
        return found

    def shape(self, value: str) -> tuple[int, ...]:
        """Return the shape of a value whose extents are all known."""
        shape = self.graph.shape(value)
        if 0 in shape:
            self.refuse(f"value '{value}' of shape {list(shape)}, in which 0 is unknown", "known extents")
        return shape

    def constant(self, value: str, shape: tuple[int, ...], number: int) -> ConstantObject:
        """Keep a constant in a shape, as the kernel's constant of a number; return the object that stands for it."""
        return self.pool.add(self.place, value, shape, f"{self.name}_const_{number}")

    def bias(self, node: FlowNode) -> str:
        left, right = node.inputs
        return left if node.operator == Operator.ADD and left in self.graph.constants else right

    def only(self, nodes: tuple[FlowNode, ...], *operators: str) -> None:
        """Refuse nodes that the layer cannot hold."""
        for node in nodes:
            if node.operator not in operators:
                self.refuse(f"'{node.name}' ({node.operator}) in it", f"only {', '.join(operators) or 'it alone'}")

    def refuse(self, got: str, expected: str) -> NoReturn:
        """Raise FlowFilesError."""
        raise FlowFilesError(f"{self.place}: got {got}, expected {expected}")

    @property
    def _behind(self) -> tuple[FlowNode, ...]:
        return self.kernel.nodes[self.kernel.nodes.index(self.main) + 1 :]


@dataclass(frozen=True, slots=True)
class LayerDraft:
    """Values that are particular to the layer of a kernel."""

    attributes: Callable[..., LayerAttributes]
    """Makes the attributes of its kind."""
    own: Mapping[str, Any]
    """The attributes that not all layers have."""
    data: tuple[str, ...]
    """The values that it reads, without constants."""
    constants: int = 0
    """How many constants it reads."""
    data_layout: str = ""
    out_layout: str = ""
    padded_rank: int | None = None
    """Shapes are written with ones in front up to this rank, and with ones behind up to 4; None for as they are."""
    named_layouts: bool = True
    """True if the name of the function has the layouts."""
    extension: Mapping[str, Any] = field(default_factory=dict)
