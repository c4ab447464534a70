"""Operations on two tensors that broadcast, element by element."""

from __future__ import annotations

from nnhal.operations._window import activation_of
from nnhal.operations.binary import Input
from nnhal.types import OperationType
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
    OperationType.PRELU: "PRelu",
    OperationType.SUB: "Sub",
}
_BOTH = (Input.FIRST, Input.SECOND)


def arithmetic(to: Emitter) -> None:
    """ADD, SUB, MUL and DIV, which have an activation."""
    layout = to.common_layout(_BOTH)
    result = to.graph.add(_NODES[to.op.type], *(to.real(position, layout) for position in _BOTH))
    to.keep_real(result, layout, activation_of(to.op, Input.ACTIVATION))


def pairwise(to: Emitter) -> None:
    """Comparisons, logic, extremes, powers."""
    layout = to.common_layout(_BOTH)
    result = to.graph.add(_NODES[to.op.type], *(to.real(position, layout) for position in _BOTH))
    if to.op.type == OperationType.NOT_EQUAL:
        result = to.graph.add("Not", result)
    to.keep_real(result, layout)


def select(to: Emitter) -> None:
    """The elements of the first tensor where the mask is true, elsewhere those of the second."""
    mask, first, second = range(3)
    layout = to.common_layout((mask, first, second))
    to.keep_real(to.graph.add("Where", to.kept(mask, layout), to.real(first, layout), to.real(second, layout)), layout)
