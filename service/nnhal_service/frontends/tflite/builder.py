"""HAL operands for TFLite's tensors, and operations for one operator after another."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from tflite import ActivationFunctionType

from nnhal.arrays import Array
from nnhal.types import ChannelQuant, FusedActivation, Operand, OperandLifeTime, OperandType, OperationType
from nnhal.types.layout import ELEMENT_TYPES, Dimensions, describe
from nnhal_service.frontends.builder import ModelBuilder, ReferencedSubgraph
from nnhal_service.frontends.errors import InvalidModel, UnsupportedNode
from nnhal_service.frontends.operation_builder import ACTIVATIONS, OperationBuilder
from nnhal_service.frontends.tflite.graph import (
    OptionsKind,
    TfliteGraph,
    TfliteOperator,
    TfliteQuantization,
    TfliteTensor,
)
from nnhal_service.frontends.tflite.tensors import (
    QUANT8,
    channels_of,
    element_type,
    narrowed,
    operand_of,
    quantization_of,
    real_values,
    values_of,
)

FLOAT = Operand(OperandType.TENSOR_FLOAT32)
"""What a step in floats gives."""

_MOST_ELEMENTS = 1 << 26
"""Of a constant that is made here. A shape that asks for more is a broken one."""
_DEEPEST = 16
"""How many subgraphs may be inside one another."""
_FUSED = {
    ActivationFunctionType.NONE: FusedActivation.NONE,
    ActivationFunctionType.RELU: FusedActivation.RELU,
    ActivationFunctionType.RELU_N1_TO_1: FusedActivation.RELU1,
    ActivationFunctionType.RELU6: FusedActivation.RELU6,
}


@dataclass(frozen=True, slots=True)
class StateVariable:
    """A variable, which the HAL has not: the model's input that it is before an execution, and its output after it."""

    tensor: int
    before: int
    after: int


@dataclass(slots=True)
class SubgraphTable:
    """The file's subgraphs that IF and WHILE refer to, converted when they are first asked for.

    ``parts`` are those that have been, in the order of the HAL model's.
    """

    convert: Callable[[int], ReferencedSubgraph]
    parts: list[ReferencedSubgraph] = field(default_factory=list)
    _places: dict[int, int] = field(default_factory=dict)
    _open: list[int] = field(default_factory=lambda: [0])

    def place(self, number: int) -> int:
        """Where a subgraph of the file is in the HAL model. Raises FrontendError."""
        if number in self._open or len(self._open) > _DEEPEST:
            raise InvalidModel(f"subgraphs refer to one another {self._open}, then {number}: in a cycle, or too deep")
        if number not in self._places:
            self._open.append(number)
            self.parts.append(self.convert(number))
            self._places[number] = len(self.parts) - 1
            self._open.pop()
        return self._places[number]


@dataclass(slots=True)
class TfliteGraphBuilder:
    """The HAL subgraph of a graph in the making. ``number`` is its place in the file: 0 for main.

    ``origins`` names each operation's operators.
    ``folded`` has the values of tensors that need no operation, since they are known before execution.
    """

    graph: TfliteGraph
    subgraphs: SubgraphTable
    number: int = 0
    model: ModelBuilder = field(default_factory=ModelBuilder)
    operands: dict[int, int] = field(default_factory=dict)
    origins: list[tuple[str, ...]] = field(default_factory=list)
    folded: dict[int, Array] = field(default_factory=dict)
    states: list[StateVariable] = field(default_factory=list)

    def input(self, index: int) -> int:
        """The operand of an input of the model. Raises ValueError for a tensor that the HAL cannot hold."""
        tensor = self.graph.tensors[index]
        operand = operand_of(tensor, OperandLifeTime.SUBGRAPH_INPUT, tensor.initial_shape or (1,))
        self.operands[index] = self.model.add(operand, tensor.name)
        return self.operands[index]

    def tensor(self, index: int) -> int:
        """The operand of a tensor: constants and results get theirs when they are first asked for.

        Raises ValueError for a tensor that the HAL cannot hold, InvalidModel for one that is broken.
        """
        if index not in self.operands:
            tensor = self.graph.tensors[index]
            if self.values(index) is not None:
                self.operands[index] = self._constant(index)
            elif tensor.variable:
                raise ValueError(f"'{tensor.name}' is a variable, which only recurrent operators may read")
            else:
                is_output = index in self.graph.outputs
                lifetime = OperandLifeTime.SUBGRAPH_OUTPUT if is_output else OperandLifeTime.TEMPORARY_VARIABLE
                self.operands[index] = self.model.add(operand_of(tensor, lifetime, tensor.shape), tensor.name)
        return self.operands[index]

    def values(self, index: int) -> Array | None:
        """The values of a tensor that is known before execution, of its own element type; None where it is not."""
        if index in self.folded:
            return self.folded[index]
        tensor = self.graph.tensors[index]
        return None if tensor.data is None else values_of(tensor)

    def _constant(self, index: int) -> int:
        tensor, values = self.graph.tensors[index], self.values(index)
        if values is None or values.size == 0:
            raise ValueError(f"'{tensor.name}' has no elements")
        values, code = np.atleast_1d(narrowed(values, tensor.name)), element_type(tensor).operand
        found = quantization_of(tensor)
        if found is None:
            return self.model.constant(code, values, name=tensor.name)
        if found.per_channel:
            per_channel = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
            return self.model.constant(per_channel, values, channels=channels_of(tensor), name=tensor.name)
        return self.model.constant(code, values, found.scales[0], found.zero_points[0], name=tensor.name)


@dataclass(frozen=True, slots=True)
class OperatorBuilder(OperationBuilder):
    """What a converter sees of the model: its operator, and ways to add operations for it."""

    builder: TfliteGraphBuilder
    operator: TfliteOperator

    @property
    def model(self) -> ModelBuilder:
        """See Steps."""
        return self.builder.model

    @property
    def origins(self) -> list[tuple[str, ...]]:
        """See Steps."""
        return self.builder.origins

    @property
    def stands_for(self) -> tuple[str, ...]:
        """See Steps."""
        return (self.operator.name,)

    def unsupported(self, reason: str, supported: str = "") -> UnsupportedNode:
        """See Steps."""
        return self.operator.unsupported(reason, supported)

    def options(self, kind: type[OptionsKind]) -> OptionsKind:
        """The operator's options. Raises InvalidModel where they are of another kind."""
        return self.operator.options_as(kind)

    def has(self, index: int) -> bool:
        """Whether an input is given."""
        return index < len(self.operator.inputs) and self.operator.inputs[index] is not None

    def source(self, index: int) -> TfliteTensor:
        """An input as the file has it."""
        return self.builder.graph.tensors[self._index(index)]

    def target(self, output: int = 0) -> TfliteTensor:
        """An output as the file has it."""
        return self.builder.graph.tensors[self._output(output)]

    def element_type(self, output: int = 0) -> np.dtype[np.generic]:
        """The type of an output's elements."""
        with self._held():
            return element_type(self.target(output)).numpy

    def input(self, index: int) -> int:
        """The operand of an input."""
        return self._operand(self._index(index))

    def inputs(self) -> list[int]:
        """The operands of all inputs."""
        return [self.input(index) for index in range(len(self.operator.inputs))]

    def result(self, output: int = 0) -> int:
        """The operand of an output."""
        return self._operand(self._output(output))

    def results(self) -> list[int]:
        """The operands of all outputs."""
        return [self.result(output) for output in range(len(self.operator.outputs))]

    def constant(self, index: int) -> Array | None:
        """The array of an input, None where it is left out or not known before execution."""
        if not self.has(index):
            return None
        with self._held():
            return self.builder.values(self._index(index))

    def required(self, index: int, what: str) -> Array:
        """The array of an input that must be known before execution."""
        values = self.constant(index)
        if values is None:
            got = f"'{self.source(index).name}' is computed at run time" if self.has(index) else "it has none"
            raise self.unsupported(f"its {what}: {got}", f"constant {what}")
        return values

    def integers(self, index: int, what: str) -> list[int]:
        """The elements of an input that must be known before execution."""
        values = self.required(index, what)
        if values.dtype.kind not in "iu":
            raise self.unsupported(f"its {what}: elements of {values.dtype}", "integers")
        with self._held():
            return [int(value) for value in narrowed(values, self.source(index).name).reshape(-1)]

    def integer(self, index: int, what: str) -> int:
        """The one element of an input that must be known before execution."""
        values = self.integers(index, what)
        if len(values) != 1:
            raise self.unsupported(f"its {what} has {len(values)} elements", "one")
        return values[0]

    def shape(self, index: int) -> Dimensions:
        """The dimensions of an input: 0 for an open axis. Raises UnsupportedNode where not even the rank is known."""
        return self.ranked(self.input(index))

    def ranked(self, operand: int) -> Dimensions:
        """The dimensions of an operand: 0 for an open axis. Raises UnsupportedNode where not even the rank is known."""
        dimensions = self.operand(operand).dimensions
        if not dimensions:
            raise self.unsupported(f"the rank of '{self.model.names[operand]}' is not known", "known ranks")
        return dimensions

    def tflite_shape(self, index: int) -> Dimensions:
        """The shape of an input as TFLite has it: empty for a scalar, where the HAL has [1]."""
        dimensions = self.shape(index)
        return () if dimensions == (1,) and not self.source(index).initial_shape else dimensions

    def axis(self, axis: int, rank: int) -> int:
        """An axis that may count from the end, as one in [0, rank)."""
        if not -rank <= axis < rank:
            raise self.unsupported(f"axis {axis} of rank {rank}")
        return axis % rank

    def is_quantized(self, operand: int) -> bool:
        """Whether an operand has 8-bit values that stand for reals."""
        return self.operand(operand).type in QUANT8

    def activation(self, code: int) -> int:
        """A fused activation as an operation's input."""
        return self.int32(self.fused(code))

    def fused(self, code: int) -> FusedActivation:
        """A fused activation by TFLite's number."""
        if code not in _FUSED:
            raise self.unsupported(f"fused activation {code}", "NONE, RELU, RELU_N1_TO_1, RELU6")
        return _FUSED[code]

    def finish(self, code: OperationType, inputs: Sequence[int]) -> None:
        """Add the operation that gives the operator's only result."""
        self.add(code, inputs, [self.result()])

    def finish_activated(self, code: OperationType, inputs: Sequence[int], activation: int) -> None:
        """As finish, for an operation that takes no activation: TFLite's own follows it."""
        fused = self.fused(activation)
        if fused == FusedActivation.NONE:
            self.finish(code, inputs)
        else:
            self.finish(ACTIVATIONS[fused], [self.apply(code, inputs, like=self.result())])

    def reshape(self, operand: int, shape: Sequence[int]) -> int:
        """An operand in another shape, of which one axis may be open."""
        return self.apply(OperationType.RESHAPE, [operand, self.wanted(shape)])

    def finish_reshape(self, operand: int, shape: Sequence[int], output: int = 0) -> None:
        """Give an operand in another shape."""
        self.add(OperationType.RESHAPE, [operand, self.wanted(shape)], [self.result(output)])

    def wanted(self, shape: Sequence[int]) -> int:
        """A shape as RESHAPE's input."""
        if list(shape).count(0) > 1:
            raise self.unsupported(f"shape {describe(shape)} has more than one open axis", "at most one")
        return self.vector([length or -1 for length in shape] or [1])

    def same_scale(self, first: int, second: int) -> bool:
        """Whether the values of two operands stand for the same numbers."""
        one, other = self.operand(first), self.operand(second)
        return (one.type, one.scale, one.zero_point) == (other.type, other.scale, other.zero_point)

    def with_zero(self, operand: int, activation: FusedActivation = FusedActivation.NONE) -> list[int]:
        """The inputs of an ADD of zero, which gives a quantised operand in any other scale."""
        source = self.operand(operand)
        zero = self.add_constant(
            OperandType(source.type), np.array([source.zero_point]), scale=source.scale, zero_point=source.zero_point
        )
        return [operand, zero, self.int32(activation)]

    def reals(self, index: int) -> int:
        """An input in floats: dequantised where it is quantised."""
        if self.quantization(index) is None:
            return self.input(index)
        values = self.real_constant(index)
        if values is not None:
            return self.add_constant(OperandType.TENSOR_FLOAT32, np.atleast_1d(values))
        return self.apply(OperationType.DEQUANTIZE, [self.input(index)], like=FLOAT)

    def finish_reals(self, code: OperationType, inputs: Sequence[int]) -> None:
        """As finish, for an operation that computes in floats: quantises where the result is quantised."""
        if self.is_quantized(self.result()):
            self.finish(OperationType.QUANTIZE, [self.apply(code, inputs, like=FLOAT)])
        else:
            self.finish(code, inputs)

    def real_constant(self, index: int) -> Array | None:
        """The reals of an input, None where it is left out or not known before execution."""
        values = self.constant(index)
        if values is None:
            return None
        found = self.quantization(index)
        return values if found is None else real_values(values, found)

    def quantization(self, index: int) -> TfliteQuantization | None:
        """What the integers of an input stand for, None where they are just that, or floats."""
        with self._held():
            return quantization_of(self.source(index))

    def channels(self, index: int) -> ChannelQuant:
        """The quantisation of an input with a scale for each channel."""
        with self._held():
            return channels_of(self.source(index))

    def state(self, index: int) -> tuple[int, int]:
        """The operands of a variable, before and after: an input and an output of the model."""
        tensor = self._index(index)
        source = self.builder.graph.tensors[tensor]
        if not source.variable:
            return self.input(index), self.new(self.input(index))
        if self.builder.number:
            raise self.unsupported(f"variable '{source.name}' in a subgraph", "variables in main")
        if any(state.tensor == tensor for state in self.builder.states):
            raise self.unsupported(f"variable '{source.name}' belongs to another operator too", "variables of its own")
        lifetimes = (OperandLifeTime.SUBGRAPH_INPUT, OperandLifeTime.SUBGRAPH_OUTPUT)
        with self._held():
            operands = [operand_of(source, lifetime, source.initial_shape) for lifetime in lifetimes]
        before, after = (self.model.add(operand, source.name) for operand in operands)
        self.builder.states.append(StateVariable(tensor, before, after))
        return before, after

    def filled(self, code: OperandType, shape: Dimensions, value: int = 0, **quantization: Any) -> int:
        """A constant that the file does not hold: one number in all elements."""
        if not shape or not 0 < prod(shape) <= _MOST_ELEMENTS:
            raise self.unsupported(f"a constant of {describe(shape)}", f"1 to {_MOST_ELEMENTS} elements")
        return self.add_constant(code, np.full(shape, value, ELEMENT_TYPES[code]), **quantization)

    def initial_state(self, index: int) -> int:
        """The operand of a variable that is zero when an execution begins."""
        source = self.source(index)
        if not source.variable:
            return self.input(index)
        with self._held():
            return self.filled(element_type(source).operand, source.initial_shape)

    def subgraph(self, number: int) -> int:
        """An operand that stands for one of the file's subgraphs."""
        return self.model.subgraph_reference(self.builder.subgraphs.place(number))

    def control_flow(self, code: OperationType, inputs: Sequence[int]) -> None:
        """Add an IF or WHILE that gives all of the operator's results."""
        self.model.control_flow(code, inputs, self.results())
        self.origins.append(self.stands_for)

    def fold(self, values: Array) -> None:
        """Give the result without an operation: it is known before execution."""
        self.builder.folded[self._output(0)] = values

    def _index(self, index: int) -> int:
        found = self.operator.inputs[index] if index < len(self.operator.inputs) else None
        if found is None:
            raise self.unsupported(f"input {index} is left out")
        return found

    def _output(self, output: int) -> int:
        if output >= len(self.operator.outputs):
            raise self.unsupported(f"it has {len(self.operator.outputs)} outputs", f"at least {output + 1}")
        return self.operator.outputs[output]

    def _operand(self, tensor: int) -> int:
        with self._held():
            return self.builder.tensor(tensor)

    @contextmanager
    def _held(self) -> Generator[None]:
        """What the HAL cannot hold makes the operator unsupported."""
        try:
            yield
        except ValueError as error:
            raise self.unsupported(str(error)) from error
