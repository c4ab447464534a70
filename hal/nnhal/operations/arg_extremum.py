"""ARGMAX and ARGMIN: the index of the largest or smallest element along an axis."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import axis_of, reduced
from nnhal.operations._types import F16, F32, I32, INT32, Q8A, Q8AS
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Any rank."""
    AXIS = 1
    """From -rank to rank - 1."""


def validate(op: Signature) -> None:
    """Require a tensor of any rank; the output holds indices."""
    op.count(2, names=Input)
    op.tensor(Input.INPUT, {F16: 3, F32: 3, I32: 3, Q8A: 3, Q8AS: 4})
    op.scalar(Input.AXIS, INT32)
    op.output(0, I32)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions without the axis; [1] for a vector."""
    dimensions = op.ranked(Input.INPUT)
    axis = axis_of(op, op.integer(Input.AXIS), len(dimensions))
    if op.executing and dimensions[axis] == 0:
        op.refuse(f"axis {axis} has no elements, expected at least 1")
    return (reduced(dimensions, {axis}, keep=False),)


ARGMAX = OperationDefinition(OperationType.ARGMAX, 3, validate, prepare)
ARGMIN = OperationDefinition(OperationType.ARGMIN, 3, validate, prepare)
