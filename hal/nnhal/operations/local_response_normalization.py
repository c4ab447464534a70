"""LOCAL_RESPONSE_NORMALIZATION: each element is divided by a power of its neighbours' squares along an axis.

x / (bias + alpha * sum of the squares of up to ``radius`` elements on either side and of x itself) ** beta
"""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import axis_of
from nnhal.operations._types import F16, F32, INT32, scalar_float
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Rank 1 to 4."""
    RADIUS = 1
    """Neighbours on each side."""
    BIAS = 2
    """Added to the sum of squares."""
    ALPHA = 3
    """The factor of that sum."""
    BETA = 4
    """The exponent."""
    AXIS = 5
    """The last one by default."""


def validate(op: Signature) -> None:
    """Require a tensor of rank up to 4. Ranks below 4, and the axis, need feature level 3."""
    op.count((5, 6), names=Input)
    main = op.tensor(Input.INPUT, {F32: 1, F16: 3}, rank=(1, 4))
    if len(op.inputs[Input.INPUT].dimensions) != 4:
        op.since(3)
    op.scalar(Input.RADIUS, INT32)
    for index in (Input.BIAS, Input.ALPHA, Input.BETA):
        op.scalar(index, scalar_float(main))
    op.scalar(Input.AXIS, INT32, since=3)
    op.output(0, main)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    dimensions = op.ranked(Input.INPUT, (1, 4))
    axis_of(op, op.integer(Input.AXIS, default=-1), len(dimensions))
    if op.integer(Input.RADIUS) < 0:
        op.refuse(f"radius {op.integer(Input.RADIUS)}, expected 0 or more")
    return (dimensions,)


LOCAL_RESPONSE_NORMALIZATION = OperationDefinition(OperationType.LOCAL_RESPONSE_NORMALIZATION, 1, validate, prepare)
