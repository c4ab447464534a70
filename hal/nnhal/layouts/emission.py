"""Writing the subgraph of a model whose layouts are decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from nnhal.arrays import Array
from nnhal.layouts.behaviours import rewritten_for
from nnhal.layouts.decision import LayoutDecision, LayoutReading, NodeLayouts
from nnhal.layouts.image_operations import channels_last_parameters
from nnhal.layouts.inline_constants import InlineConstants
from nnhal.layouts.schedule import LayoutSchedule, NodeStep, TransposeStep
from nnhal.resolved import ResolvedModel
from nnhal.types import Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal.types.orders import permuted


@dataclass(frozen=True, slots=True)
class EmittedSubgraph:
    """A subgraph, and what belongs to it."""

    subgraph: Subgraph
    origins: tuple[int | None, ...]
    constants: Mapping[int, Array]
    names: Mapping[int, str]
    values: bytes
    """To be appended to the model's operand values: new constants lie there."""


def emit(
    model: ResolvedModel,
    dimensions: tuple[Dimensions, ...],
    decision: LayoutDecision[int],
    plan: LayoutSchedule[int],
) -> EmittedSubgraph:
    """Write the main subgraph. ``dimensions`` are those of all operands, as far as they are known."""
    return _Emission(model, dimensions, decision, plan).emitted()


class _Emission:
    def __init__(
        self,
        model: ResolvedModel,
        dimensions: tuple[Dimensions, ...],
        decision: LayoutDecision[int],
        plan: LayoutSchedule[int],
    ) -> None:
        self._model = model
        self._main = model.model.main
        self._dimensions = dimensions
        self._decision = decision
        self._plan = plan
        self._operands: list[Operand] = []
        self._operations: list[Operation] = []
        self._origins: list[int | None] = []
        self._constants: dict[int, Array] = {}
        self._names: dict[int, str] = {}
        self._added = InlineConstants(len(model.model.operand_values))
        self._stored: dict[int, int] = {}
        """The operand in which a value lies, by its operand in the model."""
        self._lengths: dict[int, Dimensions] = {}
        """What is known of the dimensions of a value that an operation computes, as it lies in memory."""
        self._transposed: dict[LayoutReading[int], int] = {}
        self._parameters: dict[tuple[int, Dimensions, bytes], int] = {}

    def emitted(self) -> EmittedSubgraph:
        inputs = tuple(self._place(index) for index in self._main.input_indexes)
        outputs: dict[int, int] = {}
        for step in self._plan.steps:
            match step:
                case NodeStep(number):
                    self._node(number, outputs)
                case TransposeStep():
                    self._transpose(step, outputs)
        ordered = tuple(outputs[index] for index in self._main.output_indexes)
        return EmittedSubgraph(
            Subgraph(tuple(self._operands), tuple(self._operations), inputs, ordered),
            tuple(self._origins),
            self._constants,
            self._names,
            self._added.values,
        )

    def _node(self, number: int, outputs: dict[int, int]) -> None:
        operation, layouts = self._main.operations[number], self._decision.nodes[number]
        if layouts is None:
            raise TypeError("a transposition of the model is no step of its own")
        inputs = [self._read(reading) for reading in layouts.reads]
        for position, value in sorted(self._changed(number, layouts).items()):
            code = OperandType.INT32
            if position < len(inputs):
                code = OperandType(self._main.operands[operation.inputs[position]].type)
            inputs[position : position + 1] = [self._parameter(code, value)]
        for index, order in zip(operation.outputs, layouts.stores, strict=True):
            name = self._plan.names.get(index)
            operand = self._main.operands[index if name is None else name]
            if name is None:
                operand = replace(operand, lifetime=OperandLifeTime.TEMPORARY_VARIABLE)
            own = self._main.operands[index].dimensions
            self._stored[index] = self._add(replace(operand, dimensions=permuted(own, own and order)), index)
            self._lengths[index] = permuted(self._dimensions[index], self._dimensions[index] and order)
            if name in self._main.output_indexes:
                outputs[name] = self._stored[index]
        self._operation(Operation(operation.type, tuple(inputs), tuple(map(self._place, operation.outputs))), number)

    def _changed(self, number: int, layouts: NodeLayouts[int]) -> Mapping[int, Array]:
        """The parameters of an operation that are other than in the model."""
        if not layouts.converted:
            return {}
        context = self._model.context(0, number, self._dimensions)
        if layouts.arrives is None:
            return channels_last_parameters(context)
        rewritten = rewritten_for(context, layouts.arrives)
        if rewritten is None:
            raise TypeError(f"{context.place}: follows {layouts.arrives}, which it cannot")
        return rewritten.parameters

    def _transpose(self, step: TransposeStep[int], outputs: dict[int, int]) -> None:
        source = self._place(step.reading.value)
        rank = len(self._dimensions[step.reading.value])
        axes = step.reading.axes or tuple(range(rank))
        if len(axes) > rank:
            source = self._widened(source, step.reading.value, len(axes))
        given = self._operands[source]
        dimensions = permuted(given.dimensions, given.dimensions and axes)
        operand = replace(_variable(given), dimensions=dimensions)
        index = step.reading.value
        if step.result is not None:
            index = step.result
            operand = replace(operand, lifetime=self._main.operands[index].lifetime)
        made = self._add(operand, index)
        order = self._parameter(OperandType.TENSOR_INT32, np.array(axes, np.int32))
        self._operation(Operation(OperationType.TRANSPOSE, (source, order), (made,)), step.origin)
        self._transposed.setdefault(step.reading, made)
        if step.result in self._main.output_indexes:
            outputs[step.result] = made

    def _widened(self, source: int, index: int, rank: int) -> int:
        """An operand with axes of length 1 in front."""
        lengths = self._lengths.get(index, self._dimensions[index])
        known = (1,) * (rank - len(lengths)) + lengths
        made = self._add(replace(_variable(self._operands[source]), dimensions=known), index)
        shape = self._parameter(OperandType.TENSOR_INT32, np.array(known, np.int32))
        self._operation(Operation(OperationType.RESHAPE, (source, shape), (made,)), None)
        return made

    def _read(self, reading: LayoutReading[int]) -> int:
        if reading.axes is None:
            return self._place(reading.value)
        if reading not in self._transposed:
            self._transposed[reading] = self._folded(reading.value, reading.axes)
        return self._transposed[reading]

    def _place(self, index: int) -> int:
        """The operand in which a value lies; one that no operation computes is the model's own."""
        if index not in self._stored:
            self._stored[index] = self._add(self._main.operands[index], index)
            if index in self._model.constants[0]:
                self._constants[self._stored[index]] = self._model.constants[0][index]
        return self._stored[index]

    def _folded(self, index: int, axes: tuple[int, ...]) -> int:
        value = self._model.constants[0][index]
        value = value.reshape((1,) * (len(axes) - value.ndim) + value.shape)
        return self._constant(self._main.operands[index], np.ascontiguousarray(value.transpose(axes)), index)

    def _parameter(self, code: OperandType, value: Array) -> int:
        key = (code, value.shape, value.tobytes())
        if key not in self._parameters:
            stored = value.astype(ELEMENT_TYPES[code], copy=False)
            self._parameters[key] = self._constant(Operand(code), stored, None)
        return self._parameters[key]

    def _constant(self, like: Operand, value: Array, index: int | None) -> int:
        made = self._add(self._added.add(like, value), index)
        self._constants[made] = value
        return made

    def _add(self, operand: Operand, index: int | None) -> int:
        """Add an operand that holds the value of one of the model's, and so has its name."""
        self._operands.append(operand)
        made = len(self._operands) - 1
        if index is not None and index in self._model.names:
            self._names[made] = self._model.names[index]
        return made

    def _operation(self, operation: Operation, origin: int | None) -> None:
        self._operations.append(operation)
        self._origins.append(origin)


def _variable(operand: Operand) -> Operand:
    """An operand of the same type that an operation computes."""
    return Operand(operand.type, operand.dimensions, operand.scale, operand.zero_point)
