"""A model together with the values of its constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import invalid_argument
from nnhal.extensions import split_code, type_in_words
from nnhal.operations import DEFINITIONS, OperationContext, UnknownYet
from nnhal.types import Model, Operand, OperandLifeTime, OperationType, Subgraph
from nnhal.types.layout import (
    ELEMENT_TYPES,
    Dimensions,
    combine,
    describe,
    is_extension,
    is_scalar,
)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ResolvedModel:
    """A model whose constants can be read.

    ``constants`` holds, for each subgraph (0 is main, 1 is referenced[0], …), the read-only arrays of its constant
    operands by operand index, in the operand's dimensions: 0-d for scalars. They may be views into pools.
    """

    model: Model
    constants: tuple[Mapping[int, Array], ...]
    names: Mapping[int, str] = field(default_factory=dict)
    propagated: dict[int, tuple[Dimensions, ...]] = field(init=False, default_factory=dict, repr=False)
    """What ``propagate_dimensions`` has found, by subgraph: it looks at each operation once."""
    settled: dict[tuple[int, int], tuple[list[Dimensions], OperationContext]] = field(
        init=False, default_factory=dict, repr=False
    )
    """Final contexts by subgraph and operation, and the dimensions that they are for."""

    @property
    def subgraphs(self) -> tuple[Subgraph, ...]:
        return (self.model.main, *self.model.referenced)

    def context(
        self,
        subgraph: int,
        operation: int,
        dimensions: Sequence[Dimensions] | None = None,
        is_final: bool = False,
    ) -> OperationContext:
        """Return an operation of the base set with what is known before execution.

        That is the constants, and ``dimensions``, by default those of the operands. With ``is_final``, if none of its
        inputs' is unknown, the operation sees them as at execution: a 0 that it computes is then a length.
        """
        if is_final and dimensions is not None:
            return self._settled(subgraph, operation, dimensions)
        return self._context(subgraph, operation, dimensions, is_final)

    def _settled(self, subgraph: int, operation: int, dimensions: Sequence[Dimensions]) -> OperationContext:
        """Return a final context, which is made once: its validation, support and lowering look for the same in it."""
        asked = [dimensions[index] for index in self.subgraphs[subgraph].operations[operation].inputs]
        known, context = self.settled.get((subgraph, operation), (None, None))
        if context is None or known != asked:
            context = self._context(subgraph, operation, dimensions, True)
            self.settled[subgraph, operation] = asked, context
        return context

    def _context(
        self, subgraph: int, operation: int, dimensions: Sequence[Dimensions] | None, is_final: bool
    ) -> OperationContext:
        graph, constants = self.subgraphs[subgraph], self.constants[subgraph]
        node = graph.operations[operation]
        inputs = [graph.operands[index] for index in node.inputs]
        if dimensions is not None:
            inputs = [operand.with_dimensions(dimensions[i]) for operand, i in zip(inputs, node.inputs, strict=True)]
        is_known = is_final and all(map(_is_known, inputs))
        return OperationContext(
            OperationType(node.type),
            partial(describe_operation, self.model, operation, subgraph),
            inputs,
            [graph.operands[i] for i in node.outputs],
            lambda position: constants.get(node.inputs[position]),
            relaxed=self.model.relax_computation_float32_to_float16,
            is_final=is_known,
        )


def operation_in_words(model: Model, code: int) -> str:
    """Name an operation's type for messages: ``SOFTMAX``, or as what it belongs to if the HAL does not know it."""
    try:
        return OperationType(code).name
    except ValueError:
        return f"type {type_in_words(model, code) if is_extension(code) else code}"


def operation_name(model: Model, code: int) -> str:
    """Return the HAL's name of an operation, or the name of the extension that it belongs to."""
    if not is_extension(code):
        return OperationType(code).name
    names = {entry.prefix: entry.name for entry in model.extension_name_to_prefix}
    return names[split_code(code)[0]]


def describe_operation(model: Model, index: int, subgraph: int = 0, origin: int | None = None) -> str:
    """Name an operation for messages: ``operation 3 (SOFTMAX)``, with the subgraph if it is not main.

    ``origin`` is its index in the model that the reader knows, if that is another one.
    """
    name = operation_in_words(
        model, (model.referenced[subgraph - 1] if subgraph else model.main).operations[index].type
    )
    where = f" of referenced subgraph {subgraph - 1}" if subgraph else ""
    return f"operation {index if origin is None else origin} ({name}){where}"


def propagate_dimensions(resolved: ResolvedModel, subgraph: int = 0) -> tuple[Dimensions, ...]:
    """Return the dimensions of all operands of a subgraph as far as they follow from inputs and constants.

    Raises INVALID_ARGUMENT if operands contradict one another, or an operation cannot take its parameters.
    """
    found = resolved.propagated.get(subgraph)
    if found is None:
        found = resolved.propagated[subgraph] = _propagated(resolved, subgraph)
    return found


def _propagated(resolved: ResolvedModel, subgraph: int) -> tuple[Dimensions, ...]:
    graph = resolved.subgraphs[subgraph]
    known = [operand.dimensions for operand in graph.operands]
    for index, operation in enumerate(graph.operations):
        definition = None if is_extension(operation.type) else DEFINITIONS.get(OperationType(operation.type))
        if definition is None:
            continue
        context = resolved.context(subgraph, index, known, is_final=True)
        try:
            outputs = definition.output_dimensions(context)
        except UnknownYet:
            continue
        has_lengths = context.executing and not definition.depends_on_values
        for position, (operand, found) in enumerate(zip(operation.outputs, outputs, strict=True)):
            known[operand] = _agreed(context, position, known[operand], found, has_lengths)
    return tuple(known)


def _agreed(
    context: OperationContext, position: int, declared: Dimensions, found: Dimensions, has_lengths: bool
) -> Dimensions:
    """Return the dimensions of an output, as declared and as found. With ``has_lengths``, a 0 that is found is one."""
    if declared == found:
        return found
    merged = combine(declared, found)
    if merged is None or (has_lengths and declared and any(d > f == 0 for d, f in zip(declared, found, strict=True))):
        got, said = str(list(found)) if has_lengths else describe(found), describe(declared)
        invalid_argument(f"{context.place}: output {position} has dimensions {got}, the model says {said}")
    return merged


def inline_constants(model: Model, pools: Mapping[int, Array] | None = None) -> tuple[dict[int, Array], ...]:
    """Return the arrays of all constants. ``pools`` holds the bytes of the model's pools by index; constants in others
    are left out.

    The model must have been validated, since ranges are not checked here.
    """
    values = np.frombuffer(model.operand_values, np.uint8)
    pools = pools or {}

    def read(operand: Operand) -> Array | None:
        source: Array | None = None
        if operand.lifetime == OperandLifeTime.CONSTANT_COPY:
            source = values
        elif operand.lifetime == OperandLifeTime.CONSTANT_POOL:
            source = pools.get(operand.location.pool_index)
        if source is None:
            return None
        start = operand.location.offset
        raw = source[start : start + operand.location.length]
        element = ELEMENT_TYPES.get(operand.type)
        if element is None:
            return raw
        array = raw.view(element).reshape(operand.dimensions)
        if not array.flags.aligned:
            array = array.copy()  # numpy is slow with unaligned arrays, and some kernels do not accept them
        array.flags.writeable = False
        return array

    return tuple(
        {index: array for index, operand in enumerate(graph.operands) if (array := read(operand)) is not None}
        for graph in (model.main, *model.referenced)
    )


def _is_known(operand: Operand) -> bool:
    """Return whether the dimensions of an input are known, or there is none."""
    dimensions = operand.dimensions
    is_given = dimensions and 0 not in dimensions
    return bool(is_given) or is_scalar(operand.type) or operand.lifetime == OperandLifeTime.NO_VALUE
