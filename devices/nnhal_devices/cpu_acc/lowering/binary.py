"""Operations on two tensors that broadcast, element by element."""

from __future__ import annotations

import numpy as np

from nnhal.operations._window import activation_of
from nnhal.operations.elementwise import BinaryInput
from nnhal.types import OperationType
from nnhal_devices.cpu_acc.elements import QUANTIZED, keep, quantization_of
from nnhal_devices.cpu_acc.lowering._emitter import Emitter

_NODES = {
    OperationType.ADD: "Add",
    OperationType.DIV: "Div",
    OperationType.EQUAL: "Equal",
    OperationType.GREATER: "Greater",
    OperationType.GREATER_EQUAL: "GreaterOrEqual",
    OperationType.LESS: "Less",
    OperationType.LESS_EQUAL: "LessOrEqual",
    OperationType.LOGICAL_AND: "And",
    OperationType.LOGICAL_OR: "Or",
    OperationType.MAXIMUM: "Max",
    OperationType.MINIMUM: "Min",
    OperationType.MUL: "Mul",
    OperationType.NOT_EQUAL: "Equal",
    OperationType.POW: "Pow",
    OperationType.SUB: "Sub",
}
_BOTH = (BinaryInput.FIRST, BinaryInput.SECOND)


def arithmetic(to: Emitter) -> None:
    """ADD, SUB, MUL and DIV, which have an activation."""
    layout = to.common_layout(_BOTH)
    result = to.graph.add(_NODES[to.op.type], *(to.real(position, layout) for position in _BOTH))
    to.keep_real(result, layout, activation_of(to.op, BinaryInput.ACTIVATION))


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
    values, slope = to.real(BinaryInput.FIRST, layout), _only_slope(to)
    if slope is None:
        result = to.graph.add("PRelu", values, to.real(BinaryInput.SECOND, layout))
    else:
        result = to.graph.add("LeakyRelu", values, alpha=slope)
    to.keep_real(result, layout)


def _only_slope(to: Emitter) -> float | None:
    """The slope of all elements, if it is a constant."""
    if not to.graph.is_constant(to.inputs[BinaryInput.SECOND]):
        return None
    slopes = to.op.value(BinaryInput.SECOND)
    if not slopes.size or (slopes != slopes.flat[0]).any():
        return None
    operand = to.op.inputs[BinaryInput.SECOND]
    if operand.type not in QUANTIZED:
        return float(slopes.flat[0])
    quantization = quantization_of(operand)
    kept = keep(operand, slopes).astype(np.float32).flat[0]
    return float((kept - quantization.zero_point) * quantization.scale)


def select(to: Emitter) -> None:
    """The elements of the first tensor where the mask is true, elsewhere those of the second."""
    mask, first, second = range(3)
    layout = to.common_layout((mask, first, second))
    to.keep_real(to.graph.add("Where", to.kept(mask, layout), to.real(first, layout), to.real(second, layout)), layout)
