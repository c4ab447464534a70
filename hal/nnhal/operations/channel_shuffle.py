"""CHANNEL_SHUFFLE: an axis is divided into groups of equal size and read across the groups."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import axis_of, require_input_quantization
from nnhal.operations._types import F16, F32, INT32, Q8A, Q8AS
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Rank 1 to 4."""
    GROUPS = 1
    """A divisor of the axis' length."""
    AXIS = 2
    """From -rank to rank - 1."""


def validate(op: Signature) -> None:
    """Require a tensor of rank up to 4."""
    op.count(3, names=Input)
    main = op.tensor(Input.INPUT, {F16: 3, F32: 3, Q8A: 3, Q8AS: 4}, rank=(1, 4))
    op.scalar(Input.GROUPS, INT32)
    op.scalar(Input.AXIS, INT32)
    op.output(0, main)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    require_input_quantization(op)
    dimensions, groups = op.ranked(Input.INPUT, (1, 4)), op.integer(Input.GROUPS)
    axis = axis_of(op, op.integer(Input.AXIS), len(dimensions))
    if groups < 1 or dimensions[axis] % groups:
        op.refuse(f"got {groups} groups, expected a divisor of the {dimensions[axis]} elements of axis {axis}")
    return (dimensions,)


CHANNEL_SHUFFLE = OperationDefinition(OperationType.CHANNEL_SHUFFLE, 3, validate, prepare)
