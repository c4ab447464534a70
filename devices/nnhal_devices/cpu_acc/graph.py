"""The ONNX graph of a model while operations are lowered into it.

For each operand the graph records which tensors hold it: the elements as they are kept (see ``elements``) and, if those
are quantised, the reals that they stand for, each in the layouts that were asked for. So neighbouring quantised
operations share 8-bit tensors with a QuantizeLinear before and a DequantizeLinear after, which ONNX Runtime fuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
from onnx import FunctionProto, GraphProto, TensorProto, TypeProto, helper

from nnhal.arrays import Array
from nnhal.resolved import ResolvedModel
from nnhal.types import FusedActivation, OperandType
from nnhal.types.layout import Dimensions
from nnhal_devices.cpu_acc.byte_sums import sums_saturate
from nnhal_devices.cpu_acc.elements import (
    KEPT_TYPES,
    QUANTIZED,
    SIGN,
    ElementQuantization,
    activation_range,
    keep,
    kept_range,
    memory_type,
    quantization_of,
)
from nnhal_devices.cpu_acc.layout import TO_CHANNELS_FIRST, TO_CHANNELS_LAST, Layout

Attribute: TypeAlias = "int | float | str | Sequence[int] | Sequence[float] | LoweredGraph"
"""An attribute of a node; a graph is a branch."""

_SHARED_BYTES = 512
"""Equal constants up to this size are one tensor: ONNX Runtime makes numbers one too, and blocks each filter anew."""
DEFAULT_OPSETS = {"": 21}
"""The opset of ONNX's own operators that the lowering functions use."""


@dataclass(slots=True)
class LoweredNode:
    """An ONNX node."""

    type: str

    inputs: list[str]
    """Tensors, by name."""

    outputs: list[str]
    """Tensors, by name."""

    attributes: Mapping[str, Attribute]

    place: str
    """The operation of the model that it comes from."""

    domain: str = ""
    """The domain of its operator; empty for ONNX's own."""


@dataclass(slots=True)
class OperandTensors:
    """The tensors that hold one operand, by layout. ``home`` is the layout in which it was computed."""

    home: Layout
    kept: dict[Layout, str]
    reals: dict[Layout, str] = field(default_factory=dict)


class LoweredGraph:
    """Nodes, constants, inputs and outputs. ``dimensions`` are those of the operands, 0 for unknown axes.

    ``opsets`` maps domains to versions. ``types`` has ONNX's types of operands that are not tensors of numbers.
    """

    def __init__(
        self,
        model: ResolvedModel,
        dimensions: Sequence[Dimensions],
        opsets: Mapping[str, int] = DEFAULT_OPSETS,
        branch: str = "",
    ) -> None:
        """``branch`` is what the names of a branch's tensors begin with, and no others of the session do.

        A branch has its inputs and outputs as they are kept, and not as they lie in memory.
        """
        self.branch = branch
        self.model = model
        self.opsets = opsets
        self.functions: list[FunctionProto] = []
        self.message: GraphProto | None = None
        """The graph of a model that is one RUN: its nodes are taken as they are."""
        self.types: dict[int, TypeProto] = {}
        self.open_axes = False
        """True if all lengths of inputs and outputs are left open, though they are known."""
        self.operands = model.model.main.operands
        self.dimensions = dimensions
        self.nodes: list[LoweredNode] = []
        self.constants: dict[str, Array] = {}
        self.inputs: dict[str, int] = {}
        self.outputs: dict[str, int] = {}
        self.place = ""
        self._forms: dict[int, OperandTensors] = {}
        self._count = 0
        self._alike: dict[tuple[str, ...], list[LoweredNode]] = {}
        """Nodes by their types and inputs."""
        self._shared: dict[object, str] = {}
        """Small constants by their contents."""
        self._flipped_constants: set[str] = set()
        """Signed constants in whose place unsigned ones are dequantised."""
        self._avoided: list[bytes] = []

    def avoid(self, message: bytes) -> None:
        """Have the graph's own tensors have other names than those of a serialised message."""
        self._avoided.append(message)

    @cached_property
    def mark(self) -> str:
        """Return what the names of the graph's own tensors begin with, and nothing in a message does."""
        if not self._avoided:
            return self.branch
        mark = "nnhal_"
        while any(mark.encode() in message for message in self._avoided):
            mark += "_"
        return mark

    def add(self, type: str, *inputs: str, **attributes: Attribute) -> str:  # noqa: A002 - ONNX's own word
        """Add a node with one output, and return that tensor's name. An input with an empty name is omitted."""
        return self.add_many(type, inputs, 1, **attributes)[0]

    def add_many(self, type: str, inputs: Sequence[str], count: int, **attributes: Attribute) -> list[str]:  # noqa: A002
        """Add a node with several outputs, unless there is the same already, and return their names."""
        alike = self._alike.setdefault((type, *inputs), [])
        for node in alike:
            if node.attributes == attributes and len(node.outputs) == count:
                return node.outputs
        node = LoweredNode(type, list(inputs), [self.name() for _ in range(count)], attributes, self.place)
        alike.append(node)
        self.nodes.append(node)
        return node.outputs

    def call(self, function: FunctionProto, inputs: Sequence[str]) -> list[str]:
        """Add a function and a node that calls it, and return the tensors of its outputs."""
        self.functions.append(function)
        outputs = [self.name() for _ in function.output]
        self.nodes.append(LoweredNode(function.name, list(inputs), outputs, {}, self.place, function.domain))
        return outputs

    def constant(self, values: Array) -> str:
        """Add a constant, and return its tensor. Equal small ones are one tensor."""
        content = (values.dtype, values.shape, values.tobytes()) if values.nbytes <= _SHARED_BYTES else None
        if content in self._shared:
            return self._shared[content]
        name = self.name()
        self.constants[name] = values
        if content is not None:
            self._shared[content] = name
        return name

    def drop_unread_constants(self) -> None:
        """Remove the constants that no node reads. Other nodes have taken their place."""
        read = {name for node in self.nodes for name in node.inputs}
        self.constants = {name: values for name, values in self.constants.items() if name in read}
        self._shared = {content: name for content, name in self._shared.items() if name in read}

    def integers(self, values: Sequence[int]) -> str:
        """Add a constant vector, such as a shape, axes or paddings, and return its tensor."""
        return self.constant(np.array(values, np.int64))

    def element_type(self, operand: int) -> int:
        """The ONNX element type as which the graph reads and writes an operand."""
        if self.branch:
            return int(helper.np_dtype_to_tensor_dtype(KEPT_TYPES[self.operands[operand].type]))
        return memory_type(self.model.model, self.operands[operand].type, self.message is not None)

    def is_constant(self, operand: int) -> bool:
        return operand in self.model.constants[0]

    def home(self, operand: int) -> Layout:
        """The layout in which an operand was computed."""
        return self._of(operand).home

    def kept(self, operand: int, layout: Layout = Layout.GIVEN) -> str:
        """The tensor of an operand's elements in a layout."""
        tensors = self._of(operand).kept
        if layout not in tensors:
            if self.is_constant(operand):
                tensors[layout] = self.constant(keep(self.operands[operand], layout.move(self._value(operand))))
            elif layout is Layout.MOVED:
                tensors[layout] = self.add("Transpose", tensors[Layout.GIVEN], perm=TO_CHANNELS_FIRST)
            else:
                tensors[layout] = self.add("Transpose", tensors[Layout.MOVED], perm=TO_CHANNELS_LAST)
        return tensors[layout]

    def real(self, operand: int, layout: Layout = Layout.GIVEN) -> str:
        """The tensor of the reals that an operand's elements stand for."""
        if self.operands[operand].type not in QUANTIZED:
            return self.kept(operand, layout)
        tensors = self._of(operand).reals
        if layout not in tensors:
            quantization = quantization_of(self.operands[operand])
            axis = None if quantization.axis is None else layout.axis(quantization.axis)
            tensors[layout] = self.dequantize(
                self.kept(operand, layout), ElementQuantization(quantization.scale, quantization.zero_point, axis)
            )
        return tensors[layout]

    def dequantize(self, tensor: str, quantization: ElementQuantization) -> str:
        """Add a node that dequantises a tensor, and return the tensor of reals.

        Signed weights become unsigned where sums with them would saturate: ONNX Runtime's own option for that refuses
        models in which nodes share a constant.
        """
        axis = {} if quantization.axis is None else {"axis": quantization.axis}
        zeros = quantization.zero_point
        if zeros.dtype == np.int8 and tensor in self.constants and sums_saturate():
            self._flipped_constants.add(tensor)
            tensor, zeros = self.constant(self.constants[tensor].view(np.uint8) ^ SIGN), zeros.view(np.uint8) ^ SIGN
        scale, zero_point = self.constant(quantization.scale), self.constant(zeros)
        return self.add("DequantizeLinear", tensor, scale, zero_point, **axis)

    def keep(self, operand: int, tensor: str, layout: Layout = Layout.GIVEN) -> None:
        """Record which tensor holds an operand's elements."""
        self._forms[operand] = OperandTensors(layout, {layout: tensor})

    def keep_real(
        self,
        operand: int,
        tensor: str,
        layout: Layout = Layout.GIVEN,
        activation: FusedActivation = FusedActivation.NONE,
    ) -> None:
        """Clamp a tensor of reals by an activation, quantise it if need be, and record it as an operand's."""
        if self.operands[operand].type not in QUANTIZED:
            self.keep(operand, self.clamp(tensor, activation), layout)
            return
        quantization = quantization_of(self.operands[operand])
        scale, zero_point = self.constant(quantization.scale), self.constant(quantization.zero_point)
        quantized = self.add("QuantizeLinear", tensor, scale, zero_point)
        self.keep(operand, self.clamp_kept(operand, quantized, activation), layout)

    def clamp(self, tensor: str, activation: FusedActivation) -> str:
        """Apply an activation to a float tensor."""
        low, high = activation_range(activation)
        if low is None:
            return tensor
        if high is None:
            return self.add("Relu", tensor)
        return self.add("Clip", tensor, *(self.constant(np.array(bound, np.float32)) for bound in (low, high)))

    def clamp_kept(self, operand: int, tensor: str, activation: FusedActivation) -> str:
        """Apply an activation to an operand's quant8 tensor, unless the type's own range clamps as much.

        It comes after QuantizeLinear: a clip between an operation and QuantizeLinear would prevent their fusion.
        """
        low, high = kept_range(self.operands[operand], activation)
        if (low, high) == (0, 255):
            return tensor
        return self.add("Clip", tensor, *(self.constant(np.array(bound, np.uint8)) for bound in (low, high)))

    def finish(self) -> None:
        """Connect the main subgraph's outputs. Each gets a tensor of its own, ``output0`` and so on."""
        operands = self.model.model.main.output_indexes
        tensors = [self.kept(each) if self.branch else self._to_memory(each, self.kept(each)) for each in operands]
        made = {name for node in self.nodes for name in node.outputs}
        names: dict[str, str] = {}
        for number, (operand, tensor) in enumerate(zip(operands, tensors, strict=True)):
            name = f"{self.mark}output{number}"
            self.outputs[name] = operand
            if tensor in names or tensor not in made:
                self.nodes.append(LoweredNode("Identity", [tensor], [tensor := self.name()], {}, self.place))
            names[tensor] = name
        for node in self.nodes:
            node.inputs = [names.get(name, name) for name in node.inputs]
            node.outputs = [names.get(name, name) for name in node.outputs]
            self._flipped_constants.difference_update(node.inputs)
        for name in self._flipped_constants:
            del self.constants[name]

    def _of(self, operand: int) -> OperandTensors:
        if operand not in self._forms:
            kept = {} if self.is_constant(operand) else {Layout.GIVEN: self._input(operand)}
            self._forms[operand] = OperandTensors(Layout.GIVEN, kept)
        return self._forms[operand]

    def _value(self, operand: int) -> Array:
        return self.model.constants[0][operand]

    def _input(self, operand: int) -> str:
        """Declare an input of the main subgraph. Inputs that no operation reads are never declared."""
        name = f"{self.mark}input{self.model.model.main.input_indexes.index(operand)}"
        self.inputs[name] = operand
        match self.operands[operand].type:
            case OperandType.TENSOR_FLOAT16:
                return self.add("Cast", name, to=TensorProto.FLOAT)
            case OperandType.TENSOR_BOOL8:
                return self.add("Cast", name, to=TensorProto.BOOL)
            case OperandType.TENSOR_QUANT8_ASYMM_SIGNED:
                return self._flipped(name)
        return name

    def _to_memory(self, operand: int, tensor: str) -> str:
        match self.operands[operand].type:
            case OperandType.TENSOR_FLOAT16:
                return self.add("Cast", tensor, to=TensorProto.FLOAT16)
            case OperandType.TENSOR_BOOL8:
                return self.add("Cast", tensor, to=TensorProto.UINT8)
            case OperandType.TENSOR_QUANT8_ASYMM_SIGNED:
                return self._flipped(tensor)
        return tensor

    def _flipped(self, tensor: str) -> str:
        """Bytes with another sign bit: those sums wrap around. ONNX Runtime adds four times as fast as it flips."""
        return self.add("Add", tensor, self.constant(np.array(SIGN)))

    def name(self) -> str:
        """A new name for a tensor."""
        self._count += 1
        return f"{self.mark}t{self._count}"
