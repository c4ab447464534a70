"""ADD, SUB, MUL and DIV: element-wise arithmetic of two tensors that broadcast, with a fused activation."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import broadcast
from nnhal.operations._types import F16, F32, I32, INT32, Q8A, Q8AS, QUANT8
from nnhal.operations._window import activation_of
from nnhal.types import FusedActivation, OperandType, OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    FIRST = 0
    """Any dimensions."""
    SECOND = 1
    """Dimensions that broadcast with the first's: aligned at the last axis, equal or 1."""
    ACTIVATION = 2


def _validator(types: dict[OperandType, int]) -> Callable[[Signature], None]:
    def validate(op: Signature) -> None:
        op.count(3, names=Input)
        main = op.tensor(Input.FIRST, types, rank=(1, 4))
        op.same(Input.SECOND, Input.FIRST, rank=(1, 4))
        op.scalar(Input.ACTIVATION, INT32)
        op.output(0, main)
        if op.context.type == OperationType.MUL and main in QUANT8:
            _require_growing_scale(op)

    return validate


def _require_growing_scale(op: Signature) -> None:
    first, second = (op.inputs[i].scale for i in (Input.FIRST, Input.SECOND))
    if op.outputs[0].scale <= first * second:
        op.context.refuse(f"the output's scale is {op.outputs[0].scale}, expected more than {first} * {second}")


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the inputs' dimensions, broadcast."""
    activation = activation_of(op, Input.ACTIVATION)
    if op.main_type() == I32 and activation != FusedActivation.NONE:
        op.refuse(f"the activation is {activation.name}, expected NONE for TENSOR_INT32")
    return (broadcast(op, op.ranked(Input.FIRST), op.ranked(Input.SECOND)),)


ADD = OperationDefinition(OperationType.ADD, 1, _validator({F32: 1, Q8A: 1, F16: 3, Q8AS: 4, I32: 4}), prepare)
MUL = OperationDefinition(OperationType.MUL, 1, _validator({F32: 1, Q8A: 1, F16: 3, Q8AS: 4, I32: 4}), prepare)
SUB = OperationDefinition(OperationType.SUB, 2, _validator({F32: 2, F16: 3, Q8A: 3, Q8AS: 4, I32: 4}), prepare)
DIV = OperationDefinition(OperationType.DIV, 2, _validator({F32: 2, F16: 3, I32: 4}), prepare)
