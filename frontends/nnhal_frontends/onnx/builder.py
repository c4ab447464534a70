"""Make HAL operands for ONNX tensors, and operations for one node after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper

from nnhal.arrays import Array
from nnhal.extensions.onnx import MESSAGE, NAME, NUMBERS, OPERATION, PREFIX, VALUE, operand_code
from nnhal.types import ExtensionNameAndPrefix, FusedActivation, Operand, OperandLifeTime, OperandType, OperationType
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal_frontends.builder import ModelBuilder
from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.limits import ImportLimits
from nnhal_frontends.onnx.external_data import TensorPlace
from nnhal_frontends.onnx.graph import OnnxGraph, OnnxNode, OnnxQuantization, TensorInfo
from nnhal_frontends.operation_builder import ACTIVATIONS, OperationBuilder

OPERAND_TYPES: dict[np.dtype[np.generic], OperandType] = {
    np.dtype(np.float32): OperandType.TENSOR_FLOAT32,
    np.dtype(np.float16): OperandType.TENSOR_FLOAT16,
    np.dtype(np.int32): OperandType.TENSOR_INT32,
    np.dtype(np.int64): OperandType.TENSOR_INT32,
    np.dtype(np.uint8): OperandType.TENSOR_QUANT8_ASYMM,
    np.dtype(np.int8): OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    np.dtype(np.bool_): OperandType.TENSOR_BOOL8,
}
"""The HAL's types for ONNX's element types, by numpy type."""

_QUANT8 = (OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED)
_INT32 = np.iinfo(np.int32)
_INT64 = operand_code(NUMBERS[np.dtype(np.int64)])


@dataclass(slots=True)
class OnnxGraphBuilder:
    """Builds the HAL model of a graph."""

    graph: OnnxGraph
    extension: bool = False
    """True if tensors whose element type the HAL lacks become operands of the extension nnhal.onnx.

    This includes int64, since results must not be narrowed to 32 bits.
    """
    model: ModelBuilder = field(default_factory=lambda: ModelBuilder(extension=ExtensionNameAndPrefix(NAME, PREFIX)))
    operands: dict[str, int] = field(default_factory=dict)
    """The operand of each tensor that has one."""
    origins: list[tuple[str, ...]] = field(default_factory=list)
    """The user's nodes that each operation stands for."""
    uses: Counter[str] = field(init=False)
    """How often each tensor is read."""
    _of_the_hal: frozenset[str] = field(init=False)
    _outputs: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.uses, self._outputs = self.graph.uses(), frozenset(self.graph.outputs.values())
        nodes = [node for node in self.graph.nodes if node.domain != NAME]
        self._of_the_hal = frozenset(name for node in nodes for name in (*node.inputs, *node.outputs))

    @classmethod
    def within(cls, limits: ImportLimits, graph: OnnxGraph, extension: bool = False) -> OnnxGraphBuilder:
        """Return a builder whose nodes may make constants of their own within limits."""
        names = ExtensionNameAndPrefix(NAME, PREFIX)
        model = ModelBuilder(extension=names, room=limits.folded_bytes, weights=graph.weights)
        return cls(graph, extension, model)

    def input(self, name: str) -> int:
        """Add the operand of an input of the model. Raises ValueError if the HAL lacks its element type."""
        self.operands[name] = self.model.add(self._operand(name, OperandLifeTime.SUBGRAPH_INPUT), name)
        return self.operands[name]

    def tensor(self, name: str) -> int:
        """Return the operand of a tensor, added on first use. Raises ValueError if the HAL cannot hold the tensor."""
        if name not in self.operands:
            if name in self.graph.constants:
                self.operands[name] = self._constant(name)
            else:
                is_output = name in self._outputs
                lifetime = OperandLifeTime.SUBGRAPH_OUTPUT if is_output else OperandLifeTime.TEMPORARY_VARIABLE
                self.operands[name] = self.model.add(self._operand(name, lifetime), name)
        return self.operands[name]

    def extension_operation(
        self, message: onnx.ModelProto, inputs: Sequence[int], outputs: Sequence[int], stands_for: tuple[str, ...]
    ) -> None:
        """Add an operation of the extension nnhal.onnx."""
        content = np.frombuffer(message.SerializeToString(), np.uint8)
        given = [self.model.constant(operand_code(MESSAGE), content), *inputs]
        self.model.extension_operation(OPERATION, given, outputs)
        self.origins.append(stands_for)

    def exact(self, name: str) -> int:
        """Return an operand with exactly the tensor's elements, for an operation of the extension."""
        values = self.graph.constants.get(name)
        if values is None:
            return self.tensor(name)
        return self.model.constant(_exact_code(values.dtype), np.atleast_1d(values), name=name)

    def elsewhere(self, place: TensorPlace) -> int:
        """Return ``exact`` of a tensor whose values are not looked at."""
        code, dimensions = _exact_code(place.element_type), tuple(place.tensor.dims) or (1,)
        memory, name = place.pool.reference, place.tensor.name
        return self.model.reference(code, dimensions, memory, place.start, place.length, name)

    def _operand(self, name: str, lifetime: OperandLifeTime) -> Operand:
        if name not in self.graph.tensors:
            raise ValueError(f"the type of '{name}' is unknown")
        info = self.graph.tensors[name]
        if self.extension and self._needs_extension(name, info):
            number = NUMBERS.get(info.element_type, VALUE)
            shape = (0,) if number == VALUE else info.shape
            return Operand(operand_code(number), () if shape is None else shape or (1,), lifetime=lifetime)
        code = operand_type(info.element_type, name)
        shape = info.shape
        scale, zero_point = self._quantization(name, code)
        return Operand(code, () if shape is None else shape or (1,), scale, zero_point, lifetime)

    def _needs_extension(self, name: str, info: TensorInfo) -> bool:
        known = self.graph.quantization.get(name)
        per_channel = known is not None and known.axis is not None
        if info.element_type not in OPERAND_TYPES or info.element_type == np.int64 or info.is_empty or per_channel:
            return True
        # The HAL does not take an input without elements; the extension does.
        return (info.shape is None or 0 in info.shape) and name not in self._of_the_hal

    def _constant(self, name: str) -> int:
        values = self.graph.constants[name]
        code = operand_type(values.dtype, name)
        if not values.size:
            raise ValueError(f"the constant '{name}' has no elements, expected at least one")
        if values.dtype == np.int64 and values.size and not _INT32.min <= values.min() <= values.max() <= _INT32.max:
            raise ValueError(f"'{name}' has 64-bit values from {values.min()} to {values.max()}, expected 32 bits")
        scale, zero_point = self._quantization(name, code)
        return self.model.constant(code, np.atleast_1d(values), scale, zero_point, name=name)

    def _quantization(self, name: str, code: OperandType) -> tuple[float, int]:
        if code not in _QUANT8:
            return 0.0, 0
        known = self.graph.quantization.get(name)
        if known is None:
            return 1.0, 0  # integers that stand for themselves
        if known.axis is not None:
            raise ValueError(f"'{name}' has a scale for each index along axis {known.axis}, expected one scale")
        return known.scale, known.zero_point


def operand_type(element_type: np.dtype[np.generic], name: str) -> OperandType:
    """Return the HAL's type for tensors of an element type. Raises ValueError if the HAL lacks it."""
    if element_type not in OPERAND_TYPES:
        expected = ", ".join(sorted(str(known) for known in OPERAND_TYPES))
        raise ValueError(f"'{name}' has elements of type {element_type}, expected {expected}")
    return OPERAND_TYPES[element_type]


@dataclass(frozen=True, slots=True)
class NodeBuilder(OperationBuilder):
    """Interface of the builder to a converter: its node, and methods that add operations for it."""

    builder: OnnxGraphBuilder
    node: OnnxNode

    @property
    def model(self) -> ModelBuilder:
        return self.builder.model

    @property
    def origins(self) -> list[tuple[str, ...]]:
        return self.builder.origins

    @property
    def stands_for(self) -> tuple[str, ...]:
        return self.node.stands_for

    def unsupported(self, reason: str, supported: str = "") -> UnsupportedNode:
        return self.node.unsupported(reason, supported)

    @property
    def graph(self) -> OnnxGraph:
        """The graph that the node is part of."""
        return self.builder.graph

    def attribute(self, name: str, default: Any) -> Any:
        """Return an attribute's value, or ``default`` if it is left out."""
        return self.node.attributes.get(name, default)

    def has(self, index: int) -> bool:
        """Return whether an input is given."""
        return bool(self.node.input(index))

    def input(self, index: int) -> int:
        """Return the operand of an input."""
        return self._tensor(self.node.inputs[index])

    def constant(self, index: int) -> Array | None:
        """Return the array of an input; None if it is left out or not constant."""
        return self.graph.constants.get(self.node.input(index))

    def integers(self, index: int, attribute: str) -> list[int] | None:
        """Return integers that are an attribute in older opsets and an input in newer ones; None if they are left out.

        Raises UnsupportedNode if the input is not constant.
        """
        if attribute in self.node.attributes:
            return self.listed(np.asarray(self.node.attributes[attribute]), attribute)
        if not self.has(index):
            return None
        values = self.constant(index)
        if values is None:
            raise self.node.unsupported(f"its {attribute} are computed at run time", f"constant {attribute}")
        return self.listed(values, attribute)

    def shape(self, index: int) -> Dimensions:
        """Return the shape of an input, with 0 for an unknown dimension."""
        return self._shape(self.node.inputs[index])

    def output_shape(self, index: int = 0) -> Dimensions:
        return self._shape(self.node.outputs[index])

    def quantization(self, index: int) -> OnnxQuantization | None:
        """Return the quantisation of an input; None if it has plain integers or floats."""
        return self.graph.quantization.get(self.node.input(index))

    def element_type(self, index: int = 0) -> np.dtype[np.generic]:
        """Return the element type of an input."""
        name = self.node.inputs[index]
        if name in self.graph.constants:
            return self.graph.constants[name].dtype
        return self.graph.tensors[name].element_type

    def real(self, value: float) -> int:
        """Add a float scalar of the first input's precision."""
        half = self.element_type() == np.float16
        return self.add_constant(OperandType.FLOAT16 if half else OperandType.FLOAT32, np.array(value))

    def activation(self, wanted: FusedActivation | None = None) -> int:
        """Add a scalar for ``wanted``, by default the node's own activation."""
        return self.int32(self.node.activation if wanted is None else wanted)

    def array(self, values: Array) -> int:
        """Add a constant operand of an array's own element type."""
        try:
            code = operand_type(values.dtype, self.node.inputs[0])
        except ValueError as error:
            raise self.node.unsupported(str(error)) from error
        if values.dtype == np.int64 and values.size and not _INT32.min <= values.min() <= values.max() <= _INT32.max:
            raise self.node.unsupported(f"64-bit values from {values.min()} to {values.max()}", "32 bits")
        return self.add_constant(code, values, scale=1.0 if code in _QUANT8 else 0.0)

    def apply_many(self, code: OperationType, inputs: Sequence[int], count: int) -> list[int]:
        """Add an operation whose ``count`` results only this node uses, and return them.

        All results have the first input's type and scale.
        """
        results = [self.new(inputs[0]) for _ in range(count)]
        self.add(code, inputs, results)
        return results

    def finish(self, code: OperationType, inputs: Sequence[int], index: int = 0) -> None:
        """Add the operation that gives a result of the node."""
        self.add(code, inputs, [self.result(index)])

    def finish_all(self, code: OperationType, inputs: Sequence[int]) -> None:
        """Add the operation that gives all results of the node, including unused ones."""
        named = enumerate(self.node.outputs)
        results = [self.result(index) if name else self.new(self.result()) for index, name in named]
        self.add(code, inputs, results)

    def finish_activated(self, code: OperationType, inputs: Sequence[int]) -> None:
        """Add the operation that gives the node's result, followed by the node's activation, which it does not take."""
        if self.node.activation == FusedActivation.NONE:
            self.finish(code, inputs)
        else:
            self.finish(ACTIVATIONS[self.node.activation], [self.apply(code, inputs)])

    def finish_rescaled(self, operand: int) -> None:
        """Give a quantised operand in the scale of the node's result, by an ADD of zero."""
        source = self.operand(operand)
        zero = self.add_constant(
            OperandType(source.type), np.array([source.zero_point]), scale=source.scale, zero_point=source.zero_point
        )
        self.finish(OperationType.ADD, [operand, zero, self.activation()])

    def result(self, index: int = 0) -> int:
        """Return the operand of a result of the node."""
        return self._tensor(self.node.outputs[index])

    def used(self, index: int) -> bool:
        """Return whether anything reads a result of the node."""
        name = self.node.outputs[index] if index < len(self.node.outputs) else ""
        return bool(name) and bool(self.builder.uses[name])

    def finish_reshape(self, operand: int, index: int = 0) -> None:
        """Give an operand in the shape of a result of the node."""
        self.finish(OperationType.RESHAPE, [operand, self.shape_constant(self.output_shape(index))], index)

    def _shape(self, name: str) -> Dimensions:
        """Return the inferred shape, or what the operations so far have added to it."""
        shape = self.graph.shape(name)
        added = self.operand(self.builder.operands[name]).dimensions if name in self.builder.operands else ()
        if shape is None and not added:
            raise self.node.unsupported(f"the rank of '{name}' is unknown", "known ranks")
        return added if shape is None or (shape and added) else shape

    def _tensor(self, name: str) -> int:
        try:
            return self.builder.tensor(name)
        except ValueError as error:
            raise self.node.unsupported(str(error)) from error

    def add(self, code: OperationType, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Add an operation whose outputs exist already; indices for which the user expects 64 bits are widened."""
        written = [self._index_result(operand) for operand in outputs]
        OperationBuilder.add(self, code, inputs, written)  # super() does not know a class with slots
        for narrow, wide in zip(written, outputs, strict=True):
            if narrow != wide:
                self.builder.extension_operation(widening(), [narrow], [wide], self.node.stands_for)

    def _index_result(self, operand: int) -> int:
        """Return the operand that the HAL writes for a result: indices have 32 bits, though the user expects 64."""
        result = self.operand(operand)
        if result.type == _INT64 and self.node.op_type in INDEX_RESULTS:
            return self.model.add(Operand(OperandType.TENSOR_INT32, result.dimensions))
        return operand


def with_own_outputs(graph: OnnxGraph) -> OnnxGraph:
    """Return the graph with a node of its own for every output, so that each output can be an operand of its own."""
    produced = set(graph.producers())
    tensors, outputs, nodes = dict(graph.tensors), dict(graph.outputs), list(graph.nodes)
    quantization = dict(graph.quantization)
    for user, name in graph.outputs.items():
        if name in produced:
            produced.discard(name)
            continue
        copy = graph.fresh(f"{user}/output")
        nodes.append(OnnxNode(copy, "Identity", (name,), (copy,)))
        info = graph.tensors.get(name) or graph.tensors[user]
        tensors[copy], outputs[user] = info, copy
        if name in quantization:
            quantization[copy] = quantization[name]
    return replace(graph, nodes=tuple(nodes), outputs=outputs, tensors=tensors, quantization=quantization)


def _exact_code(element: np.dtype[np.generic]) -> int:
    """Return the code of operands with exactly the elements of tensors of a type."""
    code = OPERAND_TYPES.get(element)
    if code is None or code in _QUANT8 or ELEMENT_TYPES[code] != element:
        return operand_code(NUMBERS[element])
    return code


INDEX_RESULTS = frozenset({"ArgMax", "ArgMin", "TopK"})
"""The operators whose integer results are indices, which fit into 32 bits."""

_OPSET = 13
_IR_VERSION = 10


def widening() -> ModelProto:
    """Return the message for nnhal.onnx that casts int32 to int64."""
    graph = helper.make_graph(
        [helper.make_node("Cast", ["narrow"], ["wide"], to=TensorProto.INT64)],
        "widening",
        [helper.make_tensor_value_info("narrow", TensorProto.INT32, None)],
        [helper.make_tensor_value_info("wide", TensorProto.INT64, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
