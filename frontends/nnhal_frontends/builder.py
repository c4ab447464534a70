"""Build a HAL model operand by operand. Every operation is checked when it is added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal.errors import invalid_argument
from nnhal.memory import create_read_only
from nnhal.operations import DEFINITIONS, OperationContext, Signature, UnknownYet
from nnhal.types import (
    ChannelQuant,
    DataLocation,
    ExtensionNameAndPrefix,
    Memory,
    Model,
    Operand,
    OperandLifeTime,
    OperandType,
    Operation,
    OperationType,
    Subgraph,
)
from nnhal.types.layout import ELEMENT_TYPES, MAX_RANK, combine, describe, fully_specified, is_extension
from nnhal.types.memory import NOWHERE
from nnhal_frontends.limits import DEFAULT_LIMITS
from nnhal_frontends.weights_pool import Weights, pool_of

MAX_INLINE_BYTES = 128
"""Larger constants lie in the model's pool."""
POOL_ALIGNMENT = 64
"""Bytes."""
_FEW = 256
"""Constants of more values are compared by a sample of them first."""
_SAMPLE = 16
_TILED_BYTES, _TILE = 1 << 20, (64, 256)


@dataclass(slots=True)
class ModelBuilder:
    """Builds a subgraph, main or a referenced one. Equal constants become one operand."""

    operands: list[Operand] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    extension: ExtensionNameAndPrefix | None = None
    """The extension that the subgraph may use. The model names it if an operand is of an extension's type."""
    room: int = DEFAULT_LIMITS.folded_bytes
    """Bytes that constants may still take which are not in the user's file, such as fillings."""
    weights: Weights = field(default_factory=dict)
    """Memory that constants may lie in already. They stay there."""
    _is_open: bool = False
    """True if lengths of a result are unknown when its operation is added."""
    _values: dict[int, Array] = field(default_factory=dict)
    _references: dict[int, tuple[Memory, int, int]] = field(default_factory=dict)
    """The memory, the start and the length of constants that nobody looks at here."""
    _alike: dict[tuple[object, ...], list[int]] = field(default_factory=dict)
    """Constants by their type, shape and quantisation, and a sample of their values."""
    _scalars: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, operand: Operand, name: str = "") -> int:
        """Add an operand other than a constant, and return its index."""
        self.operands.append(operand)
        self.names.append(name)
        return len(self.operands) - 1

    def constant(
        self,
        code: int,
        values: Array,
        scale: float = 0.0,
        zero_point: int = 0,
        channels: ChannelQuant | None = None,
        name: str = "",
    ) -> int:
        """Add a constant operand, and return its index. Scalars are 0-d arrays.

        ``values`` must not change before ``build``, which may be the first to copy them.
        """
        stored = np.asarray(values, ELEMENT_TYPES.get(code, values.dtype))
        alike = self._alike.setdefault((code, stored.shape, scale, zero_point, channels, _sample(stored)), [])
        for index in alike:
            if _is_same(self._values[index], stored):
                return index
        operand = Operand(code, stored.shape, scale, zero_point, OperandLifeTime.CONSTANT_COPY, NOWHERE, channels)
        index = self.add(operand, name)
        self._values[index] = stored
        alike.append(index)
        return index

    def reference(
        self, code: int, dimensions: tuple[int, ...], memory: Memory, start: int, length: int, name: str = ""
    ) -> int:
        """Add a constant operand whose values are ``length`` bytes of some memory, and which nobody looks at here."""
        index = self.add(Operand(code, dimensions), name)
        self._references[index] = memory, start, length
        return index

    def scalar(self, code: int, value: int) -> int:
        """Add an integer or truth value as a constant operand, and return its index. Most operations have several."""
        found = self._scalars.get((code, value))
        if found is None:
            found = self._scalars[code, value] = self.constant(code, np.array(value))
        return found

    def operation(self, code: OperationType, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Add an operation, and complete the dimensions of its outputs from its inputs.

        Raises HalError(INVALID_ARGUMENT) if the operation does not take such operands.
        """
        operation, definition = Operation(code, tuple(inputs), tuple(outputs)), DEFINITIONS[code]
        context = OperationContext(
            code,
            code.name,
            [self.operands[i] for i in operation.inputs],
            [self.operands[i] for i in operation.outputs],
            lambda position: self._values.get(operation.inputs[position]),
        )
        definition.validate(Signature(context))
        try:
            found = definition.prepare(context)
        except UnknownYet:
            found = ((),)
        for index, dimensions in zip(operation.outputs, found, strict=False):
            if not dimensions or 0 in dimensions:
                self._is_open = True
            if dimensions != self.operands[index].dimensions:
                self._complete(context.place, index, dimensions)
        self.operations.append(operation)

    def extension_operation(self, code: int, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Add an operation of the extension, which alone knows its rules."""
        self.operations.append(Operation(code, tuple(inputs), tuple(outputs)))

    def _complete(self, place: str, index: int, dimensions: tuple[int, ...]) -> None:
        operand = self.operands[index]
        merged = combine(operand.dimensions, dimensions)
        if merged is None:
            invalid_argument(f"{place} gives {describe(dimensions)}, the model has {describe(operand.dimensions)}")
        self.operands[index] = operand.with_dimensions(merged)

    def complete(self, index: int, dimensions: tuple[int, ...]) -> None:
        """Complete the dimensions of an operand by others that it has too, unless they contradict its own."""
        merged = combine(self.operands[index].dimensions, dimensions)
        if merged is not None:
            self.operands[index] = self.operands[index].with_dimensions(merged)

    def subgraph_reference(self, number: int) -> int:
        """Add an operand that refers to a subgraph, by its position in ``build``'s ``referenced``."""
        location = DataLocation(0, number, 0)
        return self.add(Operand(OperandType.SUBGRAPH, lifetime=OperandLifeTime.SUBGRAPH, location=location))

    def control_flow(self, code: OperationType, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Add an IF or WHILE. Only the validation of the whole model checks it against its subgraphs."""
        self.operations.append(Operation(code, tuple(inputs), tuple(outputs)))

    def build(
        self, inputs: Sequence[int], outputs: Sequence[int], referenced: Sequence[ReferencedSubgraph] = ()
    ) -> Model:
        """Return the model with this subgraph as main.

        Constants of up to MAX_INLINE_BYTES lie in the model, larger ones in ``weights`` or in one pool of ashmem.
        """
        storage = _Storage(self.weights)
        main = self._subgraph(storage, inputs, outputs)
        others = tuple(part.builder._subgraph(storage, part.inputs, part.outputs) for part in referenced)
        extended = any(is_extension(operand.type) for graph in (main, *others) for operand in graph.operands)
        names = (self.extension,) if self.extension and extended else ()
        return Model(main, others, bytes(storage.inline), storage.pools(), extension_name_to_prefix=names)

    def is_settled(self, model: Model) -> bool:
        """True if all dimensions of main of a model that was built here are known, and follow from one another."""
        if self._is_open or any(len(operand.dimensions) > MAX_RANK for operand in model.main.operands):
            return False
        return all(fully_specified(operand.type, operand.dimensions) for operand in model.main.operands)

    def _subgraph(self, storage: _Storage, inputs: Sequence[int], outputs: Sequence[int]) -> Subgraph:
        operands = list(self.operands)
        for index, values in self._values.items():
            operands[index] = storage.place(operands[index], values)
        for index, place in self._references.items():
            operands[index] = storage.refer(operands[index], *place)
        return Subgraph(tuple(operands), tuple(self.operations), tuple(inputs), tuple(outputs))


@dataclass(frozen=True, slots=True)
class ReferencedSubgraph:
    """The builder of a referenced subgraph, with the subgraph's inputs and outputs."""

    builder: ModelBuilder
    inputs: Sequence[int]
    outputs: Sequence[int]


@dataclass(slots=True)
class _Storage:
    """Places the constants of a model."""

    weights: Weights
    inline: bytearray = field(default_factory=bytearray)
    _pooled: list[tuple[int, Array]] = field(default_factory=list)
    _end: int = 0
    _places: list[Memory | None] = field(default_factory=list)
    """The pools, in their order; None for the one of the constants that lie nowhere else."""

    def place(self, operand: Operand, values: Array) -> Operand:
        """Place a constant, and return its operand with lifetime and location."""
        size = values.nbytes
        if size <= MAX_INLINE_BYTES:
            self.inline += bytes(-len(self.inline) % _alignment(size))
            location = DataLocation(0, len(self.inline), size)
            self.inline += values.tobytes()
            return operand.placed(OperandLifeTime.CONSTANT_COPY, location)
        found = pool_of(self.weights, values)
        memory: Memory | None = None
        if found is None:
            start = self._end + -self._end % POOL_ALIGNMENT
            self._end = start + size
            self._pooled.append((start, values))
        else:
            memory, start = found[0].memory, found[1]
        return self.refer(operand, memory, start, size)

    def refer(self, operand: Operand, memory: Memory | None, start: int, size: int) -> Operand:
        """Return the operand of a constant that lies in memory, as ``place`` does; None for what is copied."""
        if memory not in self._places:
            self._places.append(memory)
        return operand.placed(OperandLifeTime.CONSTANT_POOL, DataLocation(self._places.index(memory), start, size))

    def pools(self) -> tuple[Memory, ...]:
        """Return the pools of the larger constants. Those that lie nowhere else are copied here, one at a time."""
        copied = ((start, _raw(values)) for start, values in self._pooled)
        return tuple(
            create_read_only(copied, self._end, "nnhal-constants") if memory is None else memory
            for memory in self._places
        )


def _raw(values: Array) -> Bytes:
    """Return the bytes of an array. One that is a large transposed matrix is copied by tiles, which caches hold."""
    if values.ndim != 2 or values.flags.c_contiguous or values.nbytes < _TILED_BYTES:
        return np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    found = np.empty(values.shape, values.dtype)
    rows, columns = _TILE
    for row in range(0, values.shape[0], rows):
        for column in range(0, values.shape[1], columns):
            tile = slice(row, row + rows), slice(column, column + columns)
            found[tile] = values[tile]
    return found.reshape(-1).view(np.uint8)


def _sample(values: Array) -> bytes:
    """Return some of the values: all of them if they are few."""
    if values.size <= _FEW:
        return values.tobytes()
    return values.flat[:: values.size // _SAMPLE].tobytes()


def _is_same(one: Array, other: Array) -> bool:
    """Return whether two arrays of one type and shape have the same bits."""
    return one is other or one.size <= _FEW or one.tobytes() == other.tobytes()


def _alignment(size: int) -> int:
    """Return the alignment of an inline constant of ``size`` bytes."""
    return 1 if size < 2 else 2 if size < 4 else 4
