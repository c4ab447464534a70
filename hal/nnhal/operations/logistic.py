"""LOGISTIC: 1 / (1 + exp(-x))."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import require_output_quantization
from nnhal.operations._types import F16, F32, Q8A, Q8AS, QUANT8
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    INPUT = 0
    """Rank 1 to 4."""


def validate(op: Signature) -> None:
    """Require a tensor of rank 1 to 4."""
    op.count(1, names=Input)
    main = op.tensor(Input.INPUT, {F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=(1, 4))
    op.output(0, main, rank=(1, 4))


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the input's dimensions. A quantised output spans [0, 1)."""
    if op.main_type() in QUANT8:
        require_output_quantization(op, 1 / 256, 0 if op.main_type() == Q8A else -128)
    return (op.ranked(Input.INPUT, (1, 4)),)


LOGISTIC = OperationDefinition(OperationType.LOGISTIC, 1, validate, prepare)
