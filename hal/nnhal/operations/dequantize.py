"""DEQUANTIZE: 8-bit values become the floats that they stand for."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._types import F16, F32, Q8A, Q8AS, Q8C, Q8S
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Rank 1 to 4."""


def validate(op: Signature) -> None:
    """Require a quantised tensor of rank 1 to 4."""
    op.count(1, names=Input)
    op.tensor(Input.INPUT, {Q8A: 1, Q8S: 3, Q8C: 3, Q8AS: 4}, rank=(1, 4))
    op.output(0, {F32: 1, F16: 3}, rank=(1, 4))


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions."""
    return (op.ranked(Input.INPUT, (1, 4)),)


DEQUANTIZE = OperationDefinition(OperationType.DEQUANTIZE, 1, validate, prepare)
