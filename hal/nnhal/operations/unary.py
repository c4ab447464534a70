"""Element-wise functions of one tensor: ABS, EXP, FLOOR, HARD_SWISH, LOG, LOGICAL_NOT, NEG, RSQRT, SIN and SQRT."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._types import B8, F16, F32, I32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Any dimensions."""


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    return (op.ranked(Input.INPUT),)


def _definition(
    kind: OperationType, since: int, types: dict[OperandType, int], rank: tuple[int, int] | None = None
) -> OperationDefinition:
    def validate(op: Signature) -> None:
        op.count(1, names=Input)
        op.output(0, op.tensor(Input.INPUT, types, rank))

    return OperationDefinition(kind, since, validate, prepare)


ABS = _definition(OperationType.ABS, 3, {F16: 3, F32: 3, I32: 4})
EXP = _definition(OperationType.EXP, 3, {F16: 3, F32: 3})
FLOOR = _definition(OperationType.FLOOR, 1, {F32: 1, F16: 3}, rank=(1, 4))
HARD_SWISH = _definition(OperationType.HARD_SWISH, 4, {F16: 4, F32: 4, Q8A: 4, Q8AS: 4})
LOG = _definition(OperationType.LOG, 3, {F16: 3, F32: 3})
LOGICAL_NOT = _definition(OperationType.LOGICAL_NOT, 3, {B8: 3})
NEG = _definition(OperationType.NEG, 3, {F16: 3, F32: 3, I32: 3})
RSQRT = _definition(OperationType.RSQRT, 3, {F16: 3, F32: 3, Q8A: 7, Q8AS: 7})
SIN = _definition(OperationType.SIN, 3, {F16: 3, F32: 3})
SQRT = _definition(OperationType.SQRT, 3, {F16: 3, F32: 3})
