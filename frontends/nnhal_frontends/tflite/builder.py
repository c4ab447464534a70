"""Make HAL operands for TFLite's tensors, and operations for one operator after another."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from tflite import ActivationFunctionType, TensorType

from nnhal.arrays import Array, Bytes
from nnhal.types import ChannelQuant, FusedActivation, Operand, OperandLifeTime, OperandType, OperationType
from nnhal.types.layout import ELEMENT_TYPES, Dimensions, describe, is_extension
from nnhal_frontends.builder import ModelBuilder, ReferencedSubgraph
from nnhal_frontends.errors import InvalidModel, UnsupportedNode
from nnhal_frontends.operation_builder import ACTIVATIONS, OperationBuilder
from nnhal_frontends.states import zeros
from nnhal_frontends.tflite.graph import (
    OperatorOptions,
    TfliteGraph,
    TfliteOperator,
    TfliteQuantization,
    TfliteTensor,
)
from nnhal_frontends.tflite.tensors import (
    QUANT8,
    channels_of,
    element_type,
    extended_operand_of,
    narrowed,
    operand_of,
    quantization_of,
    real_values,
    values_of,
)
from nnhal_frontends.tflite.variables import Variables

FLOAT_BYTES = 4
FLOAT = Operand(OperandType.TENSOR_FLOAT32)
"""The type of intermediate results in floats."""

_DEEPEST = 16
"""How deeply subgraphs may be nested."""
_FUSED = {
    ActivationFunctionType.NONE: FusedActivation.NONE,
    ActivationFunctionType.RELU: FusedActivation.RELU,
    ActivationFunctionType.RELU_N1_TO_1: FusedActivation.RELU1,
    ActivationFunctionType.RELU6: FusedActivation.RELU6,
}


@dataclass(frozen=True, slots=True, eq=False)
class StateVariable:
    """A variable. The HAL has none, so it is an input of the model (before) and an output (after an execution)."""

    name: str
    before: int
    after: int
    initial: Array
    tensor: int | None = None
    """The tensor that is the variable, if one is."""


@dataclass(slots=True)
class SubgraphTable:
    """The file's subgraphs that IF and WHILE refer to, converted on first use.

    ``converted`` has them in the order of the HAL model's referenced subgraphs.
    """

    graphs: Sequence[TfliteGraph]
    """The file's subgraphs."""
    convert: Callable[[int], ReferencedSubgraph]
    converted: list[ReferencedSubgraph] = field(default_factory=list)
    _places: dict[int, int] = field(default_factory=dict)
    _open: list[int] = field(default_factory=lambda: [0])

    def place(self, number: int) -> int:
        """Return the number in the HAL model of a subgraph of the file. Raises FrontendError if conversion fails."""
        if number in self._open or len(self._open) > _DEEPEST:
            raise InvalidModel(f"subgraphs refer to one another {self._open}, then {number}: in a cycle, or too deep")
        if number not in self._places:
            self._open.append(number)
            try:
                self.converted.append(self.convert(number))
            finally:
                self._open.pop()
            self._places[number] = len(self.converted) - 1
        return self._places[number]


@dataclass(slots=True)
class TfliteGraphBuilder:
    """Builds the HAL subgraph of a graph."""

    graph: TfliteGraph
    subgraphs: SubgraphTable
    number: int = 0
    """The graph's number in the file: 0 is main."""
    model: ModelBuilder = field(default_factory=ModelBuilder)
    operands: dict[int, int] = field(default_factory=dict)
    """The operand of each tensor that has one."""
    origins: list[tuple[str, ...]] = field(default_factory=list)
    """The operators that each operation stands for."""
    folded: dict[int, Array] = field(default_factory=dict)
    """The values of tensors that need no operation, since they are known before execution."""
    states: list[StateVariable] = field(default_factory=list)
    wide: frozenset[int] = frozenset()
    """Tensors of int64 that are not narrowed: only operations of the extension make and read them."""
    flat: frozenset[int] = frozenset()
    """Tensors of more axes than operations take, whose operands have one: only what moves them makes and reads them."""
    variables: Variables = field(default_factory=Variables)
    _outputs: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self._outputs = frozenset(self.graph.outputs)

    def input(self, index: int) -> int:
        """Add the operand of an input of the model. Raises ValueError if the HAL cannot hold the tensor."""
        tensor = self.graph.tensors[index]
        self.operands[index] = self._exact(index, OperandLifeTime.SUBGRAPH_INPUT, tensor.shape or (1,))
        return self.operands[index]

    def exact(self, index: int) -> int:
        """Return the operand of a tensor that an operation of the extension makes or reads, added on first use.

        Raises ValueError if neither HAL nor extension can hold it.
        """
        if index not in self.operands:
            tensor = self.graph.tensors[index]
            self.operands[index] = self._exact(index, self._lifetime(index), tensor.shape)
        return self.operands[index]

    def _exact(self, index: int, lifetime: OperandLifeTime, shape: Dimensions) -> int:
        tensor = self.graph.tensors[index]
        if index in self.wide:
            return self.model.add(extended_operand_of(tensor, lifetime, shape), tensor.name)
        try:
            return self.model.add(operand_of(tensor, lifetime, shape), tensor.name)
        except ValueError:
            if self.model.extension is None:
                raise
            return self.model.add(extended_operand_of(tensor, lifetime, shape), tensor.name)

    def _lifetime(self, index: int) -> OperandLifeTime:
        return OperandLifeTime.SUBGRAPH_OUTPUT if index in self._outputs else OperandLifeTime.TEMPORARY_VARIABLE

    def tensor(self, index: int) -> int:
        """Return the operand of a tensor, added on first use.

        Raises ValueError if the HAL cannot hold the tensor, InvalidModel if the tensor is malformed.
        """
        operand = self.operands.get(index)
        if operand is None:
            operand = self.operands[index] = self._added(index)
        elif is_extension(self.model.operands[operand].type):
            element_type(self.graph.tensors[index])  # raises if the HAL lacks it
            raise _too_wide(self.graph.tensors[index])
        return operand

    def _added(self, index: int) -> int:
        values, tensor = self.values(index), self.graph.tensors[index]
        if values is not None:
            return self._constant(tensor, values)
        if tensor.variable:
            raise ValueError(f"'{tensor.name}' is a variable, which only recurrent operators may read")
        if index in self.wide:
            raise _too_wide(tensor)
        shape = (prod(tensor.shape),) if index in self.flat else tensor.shape
        return self.model.add(operand_of(tensor, self._lifetime(index), shape), tensor.name)

    @contextmanager
    def standing_in(self, operands: Mapping[int, int]) -> Generator[None]:
        """Have other operands stand for some tensors meanwhile."""
        before = self.operands
        self.operands = {**before, **operands}
        try:
            yield
        finally:
            added = {tensor: operand for tensor, operand in self.operands.items() if tensor not in operands}
            self.operands = {**added, **{tensor: before[tensor] for tensor in operands if tensor in before}}

    def values(self, index: int) -> Array | None:
        """Return the values of a tensor, of its own element type; None if they are not known before execution."""
        if index in self.folded:
            return self.folded[index]
        tensor = self.graph.tensors[index]
        if tensor.data is None:
            return None
        if tensor.sparsity is not None:
            self.folded[index] = self._dense(tensor)
            return self.folded[index]
        return values_of(tensor)

    def is_known(self, index: int) -> bool:
        """Return whether a tensor has values before execution."""
        return index in self.folded or self.graph.tensors[index].data is not None

    def stored(self, index: int) -> tuple[Bytes, Dimensions] | None:
        """Return the bytes and the shape of a tensor that has values before execution, as files have them."""
        tensor = self.graph.tensors[index]
        values = self.values(index) if index in self.folded or tensor.sparsity is not None else None
        if values is not None:
            return np.ascontiguousarray(values).reshape(-1).view(np.uint8), values.shape
        return None if tensor.data is None else (tensor.data, tensor.initial_shape)

    def _dense(self, tensor: TfliteTensor) -> Array:
        """Return the array of a sparse constant. Raises ValueError if it takes more memory than constants may."""
        size = prod(tensor.initial_shape) * element_type(tensor).numpy.itemsize
        if size > self.model.room:
            raise ValueError(
                f"the sparse constant '{tensor.name}' of {describe(tensor.initial_shape)} takes {size} bytes, "
                f"expected at most {self.model.room} more"
            )
        self.model.room -= size
        return values_of(tensor)

    def _constant(self, tensor: TfliteTensor, values: Array) -> int:
        if values.size == 0:
            raise ValueError(f"'{tensor.name}' has no elements")
        values, code = np.atleast_1d(narrowed(values, tensor.name)), element_type(tensor).operand
        found = quantization_of(tensor)
        if found is None:
            return self.model.constant(code, values, name=tensor.name)
        if found.per_channel:
            per_channel = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
            return self.model.constant(per_channel, values, channels=channels_of(tensor), name=tensor.name)
        return self.model.constant(code, values, found.scales[0], found.zero_points[0], name=tensor.name)


def _too_wide(tensor: TfliteTensor) -> ValueError:
    return ValueError(f"'{tensor.name}' has integers of 64 bits, expected 32")


@dataclass(frozen=True, slots=True)
class OperatorBuilder(OperationBuilder):
    """Interface of the builder to a converter: its operator, and methods that add operations for it.

    Methods also raise ValueError, about a tensor that the HAL cannot hold.
    """

    builder: TfliteGraphBuilder
    operator: TfliteOperator

    @property
    def model(self) -> ModelBuilder:
        return self.builder.model

    @property
    def origins(self) -> list[tuple[str, ...]]:
        return self.builder.origins

    @property
    def stands_for(self) -> tuple[str, ...]:
        return (self.operator.name,)

    def unsupported(self, reason: str, supported: str = "") -> UnsupportedNode:
        return self.operator.unsupported(reason, supported)

    def options(self, kind: Any) -> OperatorOptions:
        """Return the operator's options, which a class of the schema reads. Raises InvalidModel for another kind."""
        return self.operator.options_as(kind)

    def has(self, index: int) -> bool:
        """Return whether an input is given."""
        return index < len(self.operator.inputs) and self.operator.inputs[index] is not None

    def source(self, index: int) -> TfliteTensor:
        """Return the tensor of an input."""
        return self.builder.graph.tensors[self._index(index)]

    def target(self, output: int = 0) -> TfliteTensor:
        return self.builder.graph.tensors[self._output(output)]

    def element_type(self, output: int = 0) -> np.dtype[np.generic]:
        return element_type(self.target(output)).numpy

    def input(self, index: int) -> int:
        """Return the operand of an input."""
        return self.builder.tensor(self._index(index))

    def inputs(self) -> list[int]:
        """Return the operands of all inputs."""
        return [self.input(index) for index in range(len(self.operator.inputs))]

    def result(self, output: int = 0) -> int:
        """Return the operand of an output."""
        return self.builder.tensor(self._output(output))

    def results(self) -> list[int]:
        """Return the operands of all outputs."""
        return [self.result(output) for output in range(len(self.operator.outputs))]

    def constant(self, index: int) -> Array | None:
        """Return the array of an input; None if it is left out or not known before execution."""
        return self.builder.values(self._index(index)) if self.has(index) else None

    def required(self, index: int, what: str) -> Array:
        """Return the array of an input. Raises UnsupportedNode if it is not known before execution."""
        values = self.constant(index)
        if values is None:
            got = f"'{self.source(index).name}' is computed at run time" if self.has(index) else "it has none"
            raise self.unsupported(f"its {what}: {got}", f"constant {what}")
        return values

    def integers(self, index: int, what: str) -> list[int]:
        """Return the elements of an input. Raises UnsupportedNode unless they are integers known before execution."""
        values = self.required(index, what)
        if values.dtype.kind not in "iu":
            raise self.unsupported(f"its {what}: elements of {values.dtype}", "integers")
        return self.listed(narrowed(values, self.source(index).name), what)

    def integer(self, index: int, what: str) -> int:
        """Return the only element of an input, as ``integers`` does. Raises UnsupportedNode if there are more."""
        values = self.integers(index, what)
        if len(values) != 1:
            raise self.unsupported(f"its {what} has {len(values)} elements", "one")
        return values[0]

    def shape(self, index: int) -> Dimensions:
        """Return the dimensions of an input, 0 for an unknown one. Raises UnsupportedNode if the rank is unknown."""
        return self.ranked(self.input(index))

    @property
    def moves_flat(self) -> bool:
        """True if the first input or the result has more axes than operations take, and an operand of one axis."""
        return not self.builder.flat.isdisjoint((self._index(0), self._output(0)))

    def ranked(self, operand: int) -> Dimensions:
        """Return the dimensions of an operand, 0 for an unknown one. Raises UnsupportedNode if the rank is unknown."""
        dimensions = self.operand(operand).dimensions
        if not dimensions:
            raise self.unsupported(f"the rank of '{self.model.names[operand]}' is unknown", "known ranks")
        return dimensions

    def tflite_shape(self, index: int) -> Dimensions:
        """Return the shape of an input in TFLite: empty for a scalar, for which the HAL has [1]."""
        dimensions = self.shape(index)
        return () if dimensions == (1,) and not self.source(index).initial_shape else dimensions

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis, which may count from the end, as one in [0, rank)."""
        if not -rank <= axis < rank:
            raise self.unsupported(f"axis {axis} of rank {rank}")
        return axis % rank

    def is_quantized(self, operand: int) -> bool:
        """Return whether an operand has quantised 8-bit values."""
        return self.operand(operand).type in QUANT8

    def activation(self, code: int) -> int:
        """Add a fused activation, by TFLite's number, as an operation's input."""
        return self.int32(self.fused(code))

    def fused(self, code: int) -> FusedActivation:
        """Return a fused activation by TFLite's number."""
        if code not in _FUSED:
            raise self.unsupported(f"fused activation {code}", "NONE, RELU, RELU_N1_TO_1, RELU6")
        return _FUSED[code]

    def finish(self, code: OperationType, inputs: Sequence[int]) -> None:
        """Add the operation that gives the operator's only result."""
        self.add(code, inputs, [self.result()])

    def finish_activated(self, code: OperationType, inputs: Sequence[int], activation: int) -> None:
        """Add the operation that gives the only result, followed by an activation, which it does not take."""
        fused = self.fused(activation)
        if fused == FusedActivation.NONE:
            self.finish(code, inputs)
        else:
            self.finish(ACTIVATIONS[fused], [self.apply(code, inputs, like=self.result())])

    def finish_reshape(self, operand: int, shape: Sequence[int], output: int = 0) -> None:
        """Give an operand in another shape."""
        self.add(OperationType.RESHAPE, [operand, self.shape_constant(shape)], [self.result(output)])

    def same_scale(self, first: int, second: int) -> bool:
        """Return whether two operands have the same type and quantisation."""
        one, other = self.operand(first), self.operand(second)
        return (one.type, one.scale, one.zero_point) == (other.type, other.scale, other.zero_point)

    def with_zero(self, operand: int, activation: FusedActivation = FusedActivation.NONE) -> list[int]:
        """Return the inputs of an ADD of zero, which can give a quantised operand in another scale."""
        source = self.operand(operand)
        zero = self.add_constant(
            OperandType(source.type), np.array([source.zero_point]), scale=source.scale, zero_point=source.zero_point
        )
        return [operand, zero, self.int32(activation)]

    def reals(self, index: int) -> int:
        """Return an input in floats, dequantised if necessary."""
        if self.quantization(index) is None:
            return self.input(index)
        values = self.real_constant(index)
        if values is not None:
            return self.add_constant(OperandType.TENSOR_FLOAT32, np.atleast_1d(values))
        return self.apply(OperationType.DEQUANTIZE, [self.input(index)], like=FLOAT)

    def finish_reals(self, code: OperationType, inputs: Sequence[int]) -> None:
        """Add an operation that computes the only result in floats, followed by QUANTIZE if the result is quantised."""
        if self.is_quantized(self.result()):
            self.finish(OperationType.QUANTIZE, [self.apply(code, inputs, like=FLOAT)])
        else:
            self.finish(code, inputs)

    def real_constant(self, index: int) -> Array | None:
        """Return the reals of an input; None if it is left out, not known before execution, or too large."""
        values = self.constant(index)
        if values is None:
            return None
        found = self.quantization(index)
        if found is None:
            return values
        size = values.size * FLOAT_BYTES
        if size > self.model.room:
            return None  # devices can compute it too
        self.model.room -= size
        return real_values(values, found)

    def quantization(self, index: int) -> TfliteQuantization | None:
        """Return the quantisation of an input; None if it has plain integers or floats."""
        return quantization_of(self.source(index))

    def channels(self, index: int) -> ChannelQuant:
        """Return the quantisation of an input with a scale for each channel."""
        return channels_of(self.source(index))

    def state(self, index: int) -> tuple[int, int]:
        """Add the operands of a variable, before and after an execution: an input and an output of the model."""
        tensor = self._index(index)
        source = self.builder.graph.tensors[tensor]
        if not source.variable:
            return self.input(index), self.new(self.input(index))
        if self.builder.number:
            raise self.unsupported(f"variable '{source.name}' in a subgraph", "variables in main")
        if any(state.tensor == tensor for state in self.builder.states):
            raise self.unsupported(f"variable '{source.name}' belongs to another operator too", "variables of its own")
        lifetimes = (OperandLifeTime.SUBGRAPH_INPUT, OperandLifeTime.SUBGRAPH_OUTPUT)
        operands = [operand_of(source, lifetime, source.initial_shape) for lifetime in lifetimes]
        before, after = (self.model.add(operand, source.name) for operand in operands)
        # An interpreter fills variables of int8 with their zero point, and all others with zeros.
        zero = operands[0].zero_point if source.code == TensorType.INT8 else 0
        initial = zeros(source.initial_shape, element_type(source).numpy, zero)
        self.builder.states.append(StateVariable(source.name, before, after, initial, tensor))
        return before, after

    def filled(self, code: OperandType, shape: Dimensions, value: int = 0, **quantization: Any) -> int:
        """Add a constant that is not in the file, with ``value`` in all elements."""
        if not shape or prod(shape) < 1:
            raise self.unsupported(f"a constant of {describe(shape)}", "at least one element")
        self.reserve(shape, ELEMENT_TYPES[code])
        return self.add_constant(code, np.full(shape, value, ELEMENT_TYPES[code]), **quantization)

    def initial_state(self, index: int) -> int:
        """Return the operand of a variable that is zero at the beginning of an execution."""
        source = self.source(index)
        if not source.variable:
            return self.input(index)
        return self.filled(element_type(source).operand, source.initial_shape)

    def subgraph(self, number: int) -> int:
        """Add an operand that refers to one of the file's subgraphs."""
        return self.model.subgraph_reference(self.builder.subgraphs.place(number))

    def control_flow(self, code: OperationType, inputs: Sequence[int]) -> None:
        """Add an IF or WHILE that gives all of the operator's results."""
        self.model.control_flow(code, inputs, self.results())
        self.origins.append(self.stands_for)

    def fold(self, values: Array, output: int = 0) -> None:
        """Give a result without an operation, since it is known before execution."""
        if not values.size and self._output(output) in self.builder.graph.outputs:
            raise self.unsupported("an output without elements, which no constant is")
        self.builder.folded[self._output(output)] = values

    def _index(self, index: int) -> int:
        found = self.operator.inputs[index] if index < len(self.operator.inputs) else None
        if found is None:
            raise self.unsupported(f"input {index} is left out")
        return found

    def _output(self, output: int) -> int:
        if output >= len(self.operator.outputs):
            raise self.unsupported(f"it has {len(self.operator.outputs)} outputs", f"at least {output + 1}")
        return self.operator.outputs[output]
