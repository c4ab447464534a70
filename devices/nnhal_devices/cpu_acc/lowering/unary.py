"""Operations on one tensor, element by element."""

from __future__ import annotations

from nnhal.operations.activation import EluInput
from nnhal.types import FusedActivation, OperationType
from nnhal_devices.cpu_acc.elements import QUANTIZED
from nnhal_devices.cpu_acc.lowering._emitter import Emitter

_CLAMPS = {
    OperationType.RELU: FusedActivation.RELU,
    OperationType.RELU1: FusedActivation.RELU1,
    OperationType.RELU6: FusedActivation.RELU6,
}
_NODES = {
    OperationType.ABS: "Abs",
    OperationType.EXP: "Exp",
    OperationType.FLOOR: "Floor",
    OperationType.HARD_SWISH: "HardSwish",
    OperationType.LOG: "Log",
    OperationType.LOGICAL_NOT: "Not",
    OperationType.LOGISTIC: "Sigmoid",
    OperationType.NEG: "Neg",
    OperationType.SIN: "Sin",
    OperationType.SQRT: "Sqrt",
    OperationType.TANH: "Tanh",
}


def clamp(to: Emitter) -> None:
    """RELU, RELU1 and RELU6. 8-bit values are clamped as they are, since input and output are quantised alike."""
    layout = to.common_layout((0,))
    activation = _CLAMPS[to.op.type]
    if to.op.main_type() in QUANTIZED:
        to.keep(to.graph.clamp_kept(to.outputs[0], to.kept(0, layout), activation), layout)
    else:
        to.keep(to.graph.clamp(to.kept(0, layout), activation), layout)


def unary(to: Emitter) -> None:
    """Operations that are one ONNX node."""
    layout = to.common_layout((0,))
    to.keep_real(to.graph.add(_NODES[to.op.type], to.real(0, layout)), layout)


def rsqrt(to: Emitter) -> None:
    """One divided by the square root."""
    layout = to.common_layout((0,))
    to.keep_real(to.graph.add("Reciprocal", to.graph.add("Sqrt", to.real(0, layout))), layout)


def elu(to: Emitter) -> None:
    """Negative values approach -alpha."""
    layout = to.common_layout((0,))
    alpha = to.op.real(EluInput.ALPHA)
    to.keep_real(to.graph.add("Elu", to.real(0, layout), alpha=alpha), layout)
