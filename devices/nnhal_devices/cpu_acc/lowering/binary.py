"""ADD, SUB, MUL and DIV."""

from __future__ import annotations

from nnhal.operations._window import activation_of
from nnhal.operations.binary import Input
from nnhal.types import OperandType, OperationType
from nnhal_devices.cpu_acc.lowering._emitter import Emitter

_NODES = {
    OperationType.ADD: "Add",
    OperationType.DIV: "Div",
    OperationType.MUL: "Mul",
    OperationType.SUB: "Sub",
}


def binary(to: Emitter) -> None:
    """Both operations broadcast in the same way."""
    layout = to.common_layout((Input.FIRST, Input.SECOND))
    node = _NODES[to.op.type]
    if to.op.main_type() == OperandType.TENSOR_INT32:
        to.keep(to.graph.add(node, to.kept(Input.FIRST, layout), to.kept(Input.SECOND, layout)), layout)
        return
    result = to.graph.add(node, to.real(Input.FIRST, layout), to.real(Input.SECOND, layout))
    to.keep_real(result, layout, activation_of(to.op, Input.ACTIVATION))
