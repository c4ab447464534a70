"""QUANTIZE: floats become 8-bit values with the output's scale and zero point."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._types import F16, F32, Q8A, Q8AS
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Rank 1 to 4."""


def validate(op: Signature) -> None:
    """Require a float tensor of rank 1 to 4."""
    op.count(1, names=Input)
    op.tensor(Input.INPUT, {F16: 3, F32: 3}, rank=(1, 4))
    op.output(0, {Q8A: 3, Q8AS: 4}, rank=(1, 4))


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    return (op.ranked(Input.INPUT, (1, 4)),)


QUANTIZE = OperationDefinition(OperationType.QUANTIZE, 3, validate, prepare)
