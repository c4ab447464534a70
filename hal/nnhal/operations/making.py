"""Tensors from nothing but parameters, and from chance.

FILL: a tensor of given dimensions, all elements equal.

RANDOM_MULTINOMIAL: classes drawn at random according to unnormalised log-probabilities.
"""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations.context import OperationContext, Signature
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.dimensions import require_dimensions
from nnhal.operations.operand_types import F16, F32, FLOAT16, FLOAT32, I32, INT32
from nnhal.operations.operands import Inputs, scalar, signature, tensor
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions

_VALUE_TYPES = {F16: FLOAT16, F32: FLOAT32, I32: INT32}


class FillInput(IntEnum):
    DIMENSIONS = 0
    """[rank]: the output's dimensions."""
    VALUE = 1
    """A scalar."""


def validate_fill(op: Signature) -> None:
    """Require dimensions and a scalar of the output's element type."""
    op.count(2, names=FillInput)
    op.tensor(FillInput.DIMENSIONS, {I32: 4}, rank=1)
    op.scalar(FillInput.VALUE, _VALUE_TYPES[op.output(0, {F16: 4, F32: 4, I32: 4})])


def prepare_fill(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the given dimensions."""
    dimensions = op.integers(FillInput.DIMENSIONS)
    if min(dimensions, default=-1) < 0:
        op.refuse(f"dimensions {list(dimensions)}, expected at least one, each 0 or more")
    return (dimensions,)


FILL = OperationDefinition(OperationType.FILL, 4, validate_fill, prepare_fill)


class RandomMultinomialInput(Inputs):
    LOGITS = tensor({F16: 3, F32: 3}, rank=2), "[batch, classes]."
    SAMPLES = scalar(INT32), "For each row."
    SEEDS = tensor({I32: 1}, rank=1), "[2]."


def prepare_random_multinomial(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the batch and the samples."""
    (batch, classes), samples = op.ranked(RandomMultinomialInput.LOGITS, 2), op.integer(RandomMultinomialInput.SAMPLES)
    if samples < 1:
        op.refuse(f"got {samples} samples, expected at least 1")
    if op.executing and classes == 0:
        op.refuse("got 0 classes to draw from, expected at least 1")
    require_dimensions(op, RandomMultinomialInput.SEEDS, (2,))
    return ((batch, samples),)


RANDOM_MULTINOMIAL = OperationDefinition(
    OperationType.RANDOM_MULTINOMIAL,
    3,
    signature(RandomMultinomialInput, tensor({I32: 1}, rank=2)),
    prepare_random_multinomial,
)
