"""BATCH_MATMUL: matrix products of two batches of matrices, either of which may be transposed first."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._types import BOOL, F16, F32, I32, Q8AS
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions, combine, describe


class Input(IntEnum):
    """The inputs."""

    FIRST = 0
    """[batches ..., rows, columns]."""
    SECOND = 1
    """[batches ..., rows, columns]."""
    TRANSPOSE_FIRST = 2
    """Whether the first is transposed."""
    TRANSPOSE_SECOND = 3
    """Whether the second is transposed."""


def validate(op: Signature) -> None:
    """Require two tensors of one type and rank, 2 to 4, and two flags."""
    op.count(4, names=Input)
    main = op.tensor(Input.FIRST, {F16: 6, F32: 6, I32: 6, Q8AS: 6}, rank=(2, 4))
    op.same(Input.SECOND, Input.FIRST, rank=(2, 4))
    op.scalar(Input.TRANSPOSE_FIRST, BOOL)
    op.scalar(Input.TRANSPOSE_SECOND, BOOL)
    op.output(0, main)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the batch, the rows of the first input and the columns of the second. Batches do not broadcast."""
    first = _oriented(op.ranked(Input.FIRST), op.boolean(Input.TRANSPOSE_FIRST))
    second = _oriented(op.ranked(Input.SECOND), op.boolean(Input.TRANSPOSE_SECOND))
    batch = combine(first[:-2], second[:-2])
    if len(first) != len(second) or batch is None or combine(first[-1:], second[-2:-1]) is None:
        op.refuse(f"matrices of {describe(first)} and {describe(second)}, after transposition, cannot be multiplied")
    return ((*(batch or ()), first[-2], second[-1]),)


def _oriented(dimensions: Dimensions, transpose: bool) -> Dimensions:
    return (*dimensions[:-2], dimensions[-1], dimensions[-2]) if transpose else dimensions


BATCH_MATMUL = OperationDefinition(OperationType.BATCH_MATMUL, 6, validate, prepare)
