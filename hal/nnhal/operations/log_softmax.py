"""LOG_SOFTMAX: the logarithm of softmax, x * beta - log(sum of exp(x * beta)) along an axis."""

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
    """Any rank."""
    BETA = 1
    """The factor of the exponent."""
    AXIS = 2
    """From -rank to rank - 1."""


def validate(op: Signature) -> None:
    """Require a float tensor of any rank, beta and the axis."""
    op.count(3, names=Input)
    main = op.tensor(Input.INPUT, {F16: 3, F32: 3})
    op.scalar(Input.BETA, scalar_float(main))
    op.scalar(Input.AXIS, INT32)
    op.output(0, main)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    dimensions = op.ranked(Input.INPUT)
    axis_of(op, op.integer(Input.AXIS), len(dimensions))
    return (dimensions,)


LOG_SOFTMAX = OperationDefinition(OperationType.LOG_SOFTMAX, 3, validate, prepare)
