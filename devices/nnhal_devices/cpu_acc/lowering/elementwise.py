"""Operations element by element: on one tensor, on tensors that broadcast, and to other element types."""

from __future__ import annotations

import numpy as np
from onnx import helper

from nnhal.arrays import Array
from nnhal.operations.activation import EluInput
from nnhal.operations.elementwise import BinaryInput
from nnhal.operations.windows import activation_of
from nnhal.types import FusedActivation, OperandType, OperationType
from nnhal.types.layout import Dimensions
from nnhal_devices.cpu_acc.elements import KEPT_TYPES, QUANTIZED, keep, quantization_of
from nnhal_devices.cpu_acc.layout import Layout
from nnhal_devices.cpu_acc.lowering.emitter import Emitter

_BOTH = (BinaryInput.FIRST, BinaryInput.SECOND)
_INPUT = 0
_CLAMPS = {
    OperationType.RELU: FusedActivation.RELU,
    OperationType.RELU1: FusedActivation.RELU1,
    OperationType.RELU6: FusedActivation.RELU6,
}
_NODES = {
    OperationType.ABS: "Abs",
    OperationType.ADD: "Add",
    OperationType.DIV: "Div",
    OperationType.EQUAL: "Equal",
    OperationType.EXP: "Exp",
    OperationType.FLOOR: "Floor",
    OperationType.GREATER: "Greater",
    OperationType.GREATER_EQUAL: "GreaterOrEqual",
    OperationType.HARD_SWISH: "HardSwish",
    OperationType.LESS: "Less",
    OperationType.LESS_EQUAL: "LessOrEqual",
    OperationType.LOG: "Log",
    OperationType.LOGICAL_AND: "And",
    OperationType.LOGICAL_NOT: "Not",
    OperationType.LOGICAL_OR: "Or",
    OperationType.LOGISTIC: "Sigmoid",
    OperationType.MAXIMUM: "Max",
    OperationType.MINIMUM: "Min",
    OperationType.MUL: "Mul",
    OperationType.NEG: "Neg",
    OperationType.NOT_EQUAL: "Equal",
    OperationType.POW: "Pow",
    OperationType.SIN: "Sin",
    OperationType.SQRT: "Sqrt",
    OperationType.SUB: "Sub",
    OperationType.TANH: "Tanh",
}
"""Operations that are one node, but for an activation."""
_MOST_SPREAD = 1 << 14
"""The most numbers that a constant for channels is repeated to."""


def clamp(to: Emitter) -> None:
    """RELU, RELU1 and RELU6. 8-bit values are clamped as they are, since input and output are quantised alike."""
    layout = to.common_layout((_INPUT,))
    activation = _CLAMPS[to.op.type]
    if to.op.main_type() in QUANTIZED:
        to.keep(to.graph.clamp_kept(to.outputs[0], to.kept(_INPUT, layout), activation), layout)
    else:
        to.keep(to.graph.clamp(to.kept(_INPUT, layout), activation), layout)


def unary(to: Emitter) -> None:
    """Operations that are one ONNX node."""
    layout = to.common_layout((_INPUT,))
    to.keep_real(to.graph.add(_NODES[to.op.type], to.real(_INPUT, layout)), layout)


def rsqrt(to: Emitter) -> None:
    """One divided by the square root."""
    layout = to.common_layout((_INPUT,))
    to.keep_real(to.graph.add("Reciprocal", to.graph.add("Sqrt", to.real(_INPUT, layout))), layout)


def elu(to: Emitter) -> None:
    """Negative values approach -alpha."""
    layout = to.common_layout((_INPUT,))
    alpha = to.op.real(EluInput.ALPHA)
    to.keep_real(to.graph.add("Elu", to.real(_INPUT, layout), alpha=alpha), layout)


def arithmetic(to: Emitter) -> None:
    """ADD, SUB, MUL and DIV, which have an activation."""
    layout = to.common_layout(_BOTH)
    result = to.graph.add(_NODES[to.op.type], *(_spread(to, position, layout) for position in _BOTH))
    to.keep_real(result, layout, activation_of(to.op, BinaryInput.ACTIVATION))


def _spread(to: Emitter, position: int, layout: Layout) -> str:
    """The reals of an input. A constant with a number for each channel, the last axis, is repeated along the axis
    before: for each repetition by broadcasting ONNX Runtime calls a function.
    """
    operand, other = to.op.inputs[position], to.op.dimensions(_BOTH[position == _BOTH[0]])
    if layout is Layout.MOVED or operand.type in QUANTIZED or not to.graph.is_constant(to.inputs[position]):
        return to.real(position, layout)
    return to.graph.constant(_repeated(keep(operand, to.op.value(position)), other))


def _repeated(values: Array, other: Dimensions) -> Array:
    """Values that are to be broadcast to ``other``, 0 for an unknown axis, repeated along its last axis but one."""
    width, channels = (0, 0, *other)[-2:]
    fits = 1 < channels == values.size == values.shape[-1] and values.ndim <= len(other)
    if not fits or not 1 < width <= _MOST_SPREAD // channels:
        return values
    return np.tile(values.reshape(-1), (width, 1))


def pairwise(to: Emitter) -> None:
    """Comparisons, logic, extremes, powers."""
    layout = to.common_layout(_BOTH)
    result = to.graph.add(_NODES[to.op.type], *(to.real(position, layout) for position in _BOTH))
    if to.op.type == OperationType.NOT_EQUAL:
        result = to.graph.add("Not", result)
    to.keep_real(result, layout)


def prelu(to: Emitter) -> None:
    """PRELU. One constant slope makes a LeakyRelu, which ONNX Runtime fuses with what computes its input."""
    layout = to.common_layout(_BOTH)
    values = to.real(BinaryInput.FIRST, layout)
    slopes = _constant_slopes(to)
    if slopes is None:
        result = to.graph.add("PRelu", values, to.real(BinaryInput.SECOND, layout))
    elif (slopes == slopes.flat[0]).all():
        result = to.graph.add("LeakyRelu", values, alpha=float(slopes.flat[0]))
    else:
        slopes = layout.move(slopes) if layout is Layout.MOVED else _repeated(slopes, to.op.dimensions(_INPUT))
        result = to.graph.add("PRelu", values, to.graph.constant(slopes))
    to.keep_real(result, layout)


def _constant_slopes(to: Emitter) -> Array | None:
    """The slopes as reals, if they are constants."""
    if not to.graph.is_constant(to.inputs[BinaryInput.SECOND]):
        return None
    operand, slopes = to.op.inputs[BinaryInput.SECOND], to.op.value(BinaryInput.SECOND)
    if not slopes.size:
        return None
    reals = keep(operand, slopes).astype(np.float32)
    if operand.type not in QUANTIZED:
        return reals
    quantization = quantization_of(operand)
    return (reals - quantization.zero_point.astype(np.float32)) * quantization.scale


def select(to: Emitter) -> None:
    """The elements of the first tensor where the mask is true, elsewhere those of the second."""
    mask, first, second = range(3)
    layout = to.common_layout((mask, first, second))
    to.keep_real(to.graph.add("Where", to.kept(mask, layout), to.real(first, layout), to.real(second, layout)), layout)


def requantize(to: Emitter) -> None:
    """QUANTIZE and DEQUANTIZE: the reals are the same, and the graph converts them on either side."""
    layout = to.common_layout((_INPUT,))
    to.keep_real(to.real(_INPUT, layout), layout)


def cast(to: Emitter) -> None:
    """The stored numbers in another type; those of bytes are clamped."""
    layout = to.common_layout((_INPUT,))
    tensor, given, asked = to.kept(_INPUT, layout), to.op.main_type(), to.op.outputs[0].type
    if given != asked:
        if asked == OperandType.TENSOR_QUANT8_ASYMM:
            bounds = (to.graph.constant(np.array(bound, KEPT_TYPES[given])) for bound in (0, 255))
            tensor = to.graph.add("Clip", tensor, *bounds)
        tensor = to.graph.add("Cast", tensor, to=helper.np_dtype_to_tensor_dtype(KEPT_TYPES[asked]))
    to.keep(tensor, layout)
