"""ELU: x if x is positive, otherwise alpha * (exp(x) - 1)."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._types import F16, F32, scalar_float
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Any dimensions."""
    ALPHA = 1
    """The factor of negative values."""


def validate(op: Signature) -> None:
    """Require a float tensor and a float."""
    op.count(2, names=Input)
    main = op.tensor(Input.INPUT, {F16: 4, F32: 4})
    op.scalar(Input.ALPHA, scalar_float(main))
    op.output(0, main)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    return (op.ranked(Input.INPUT),)


ELU = OperationDefinition(OperationType.ELU, 4, validate, prepare)
