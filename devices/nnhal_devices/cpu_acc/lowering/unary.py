"""Operations on one tensor, element by element."""

from __future__ import annotations

from nnhal.types import FusedActivation, OperationType
from nnhal_devices.cpu_acc.elements import QUANTIZED
from nnhal_devices.cpu_acc.lowering._emitter import Emitter

_CLAMPS = {
    OperationType.RELU: FusedActivation.RELU,
    OperationType.RELU1: FusedActivation.RELU1,
    OperationType.RELU6: FusedActivation.RELU6,
}
_NODES = {
    OperationType.LOGISTIC: "Sigmoid",
    OperationType.TANH: "Tanh",
}


def clamp(to: Emitter) -> None:
    """RELU, RELU1 and RELU6. Input and output are quantised alike, so that 8-bit values are clamped as they are."""
    layout = to.common_layout((0,))
    activation = _CLAMPS[to.op.type]
    if to.op.main_type() in QUANTIZED:
        to.keep(to.graph.clamp_kept(to.outputs[0], to.kept(0, layout), activation), layout)
    else:
        to.keep(to.graph.clamp(to.kept(0, layout), activation), layout)


def unary(to: Emitter) -> None:
    """Operations that are one ONNX node over reals."""
    layout = to.common_layout((0,))
    to.keep_real(to.graph.add(_NODES[to.op.type], to.real(0, layout)), layout)
