"""RANDOM_MULTINOMIAL: classes drawn at random according to unnormalised log-probabilities."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._shape import require_dimensions
from nnhal.operations._types import F16, F32, I32, INT32
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    LOGITS = 0
    """[batch, classes]."""
    SAMPLES = 1
    """For each row."""
    SEEDS = 2
    """[2]."""


def validate(op: Signature) -> None:
    """Require a row of logits for each element of the batch, the number of samples for each, and two seeds."""
    op.count(3, names=Input)
    op.tensor(Input.LOGITS, {F16: 3, F32: 3}, rank=2)
    op.scalar(Input.SAMPLES, INT32)
    op.tensor(Input.SEEDS, {I32: 1}, rank=1)
    op.output(0, I32, rank=2)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the batch and the samples."""
    (batch, classes), samples = op.ranked(Input.LOGITS, 2), op.integer(Input.SAMPLES)
    if samples < 1:
        op.refuse(f"got {samples} samples, expected at least 1")
    if op.executing and classes == 0:
        op.refuse("got 0 classes to draw from, expected at least 1")
    require_dimensions(op, Input.SEEDS, (2,))
    return ((batch, samples),)


RANDOM_MULTINOMIAL = OperationDefinition(OperationType.RANDOM_MULTINOMIAL, 3, validate, prepare)
