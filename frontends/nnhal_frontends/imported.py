"""The result of a front end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nnhal.arrays import Array
from nnhal.memory import read_pools
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal.types import MappableFile, Model
from nnhal.types.layout import Dimensions


@dataclass(frozen=True, slots=True)
class ImportedTensor:
    """An input or output of the model, as the user sees it.

    ``operand`` is its index in the main subgraph. ``element_type`` and ``shape`` are the user's, with 0 for an unknown
    dimension; the element type is object for anything other than a tensor of numbers. The operand may differ in two
    ways. The HAL has no 64-bit integers: int64 becomes TENSOR_INT32 unless an extension carries it. The HAL has no
    tensors of rank 0: their dimensions are [1].
    """

    name: str
    operand: int
    element_type: np.dtype[np.generic]
    shape: tuple[int, ...]
    kind: str = ""
    """What it is if it is no tensor, in words; empty for a tensor of numbers or strings."""
    index: int | None = None
    """Its index in the graph of a TFLite file, where names may be empty or repeated."""
    usual_shape: tuple[int, ...] = ()
    """The shape that a runtime begins with, if the file has one and leaves some of it open."""


@dataclass(frozen=True, slots=True, eq=False)
class ImportedState:
    """A value that the model carries from one run to the next: an input of the HAL model, and the output that gives
    its next value. Users see neither.
    """

    before: ImportedTensor
    after: ImportedTensor
    initial: Array
    """The value before the first run, in the element type of ``before``."""
    dimensions: Dimensions
    """Those of all values, 0 for an axis whose length a run may change."""
    largest: Dimensions = ()
    """The most that they may become, 0 for an axis without a limit; empty if all are known."""

    @property
    def name(self) -> str:
        """Return what the user calls it."""
        return self.before.name


class SourceForm(Protocol):
    """The operators of the user's file from which the operations were made, as operations of an extension."""

    @property
    def extension(self) -> str:
        """The name of the extension."""
        ...

    def model_of(self, step: Model, inputs: Sequence[int], outputs: Sequence[int]) -> Model | None:
        """Return a step as one operation of the extension; None if the user's operators cannot compute just that.

        ``inputs`` and ``outputs`` are the operands of the imported model that the step reads and writes, in the order
        of the step's own.
        """
        ...


@dataclass(frozen=True, slots=True)
class FileNode:
    """A node of a file's main graph: the values that it reads, those of its own graphs included, and writes."""

    name: str
    op_type: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImportedModel:
    """A HAL model, and how it relates to the user's model.

    The inputs of the HAL model are the user's, then those of the states; so are its outputs.
    """

    model: Model
    inputs: tuple[ImportedTensor, ...]
    outputs: tuple[ImportedTensor, ...]
    operation_nodes: tuple[tuple[str, ...], ...]
    """The user's nodes that each operation of main stands for. A node may need several operations, and several nodes
    may become one operation.
    """
    folded_nodes: tuple[str, ...]
    """The user's nodes without an operation: their results are constant, are not used, or are just their inputs."""
    operand_names: tuple[str, ...]
    """The user's name of each operand of main; empty if it has none."""
    warnings: tuple[str, ...] = ()
    """What the file declares and its operations contradict: what they compute counts."""
    states: tuple[ImportedState, ...] = ()
    signatures: tuple[str, ...] = ()
    """The entry points of the file; one of them is imported."""
    source: SourceForm | None = None
    """The file's own form of the model; None if it has none that a device could take."""
    operation_places: tuple[tuple[int, ...], ...] = ()
    """The nodes of ``operation_nodes`` by their indexes in the file's main graph: their names may be repeated. Empty
    if they cannot be distinguished.
    """
    node_count: int = 0
    """How many nodes the file's main graph has; 0 if they cannot be distinguished."""
    optional_inputs: tuple[ImportedTensor, ...] = ()
    """Inputs of the file that have defaults, and are no inputs of the model: the defaults are its constants. Importing
    the file with a shape for one makes it an input. They have no operand: it is -1.
    """
    settled: Model | None = None
    """``model``, if all dimensions of its main subgraph are known to follow from one another: nobody needs to find them
    out again. A model that is made of it may have others.
    """

    @property
    def is_open(self) -> bool:
        """Return whether an input has a dimension that is unknown."""
        return any(not tensor.kind and 0 in tensor.shape for tensor in self.inputs)

    @property
    def all_inputs(self) -> tuple[ImportedTensor, ...]:
        """The user's inputs, and what the states are before a run."""
        return (*self.inputs, *(state.before for state in self.states)) if self.states else self.inputs

    @property
    def all_outputs(self) -> tuple[ImportedTensor, ...]:
        """The user's outputs, and what the states are after a run."""
        return (*self.outputs, *(state.after for state in self.states)) if self.states else self.outputs

    def resolved(self) -> ResolvedModel:
        """Return the HAL model with its constants, which stay in its pools, and with the user's names.

        Those in files that may change are left out: only a device reads these.
        """
        names = {index: name for index, name in enumerate(self.operand_names) if name}
        pools = self.model.pools
        final = [index for index, pool in enumerate(pools) if not isinstance(pool, MappableFile)]
        resolved = ResolvedModel(self.model, inline_constants(self.model, read_pools(pools, final)), names)
        if self.model is self.settled:
            resolved.propagated[0] = tuple(operand.dimensions for operand in self.model.main.operands)
        return resolved
