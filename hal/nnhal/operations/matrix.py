"""Products of matrices.

FULLY_CONNECTED: input x weights^T + bias, with a fused activation.

BATCH_MATMUL: matrix products of two batches of matrices; either batch may be transposed first.
"""

from __future__ import annotations

from enum import IntEnum
from math import prod

from nnhal.operations.context import OperationContext, Signature
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.filters import note_scale_constraint, require_bias
from nnhal.operations.layout_rules import ReadsFlat
from nnhal.operations.operand_types import BOOL, F16, F32, I32, INT32, Q8A, Q8AS, QUANT8
from nnhal.operations.windows import activation_of
from nnhal.operations.work import of_matrix, of_product
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions, combine, describe


class FullyConnectedInput(IntEnum):
    INPUT = 0
    """Rank 2 to 4, read as [batch, input size]."""
    WEIGHTS = 1
    """[units, input size]."""
    BIAS = 2
    """[units]."""
    ACTIVATION = 3


def validate_fully_connected(op: Signature) -> None:
    """Check the types and the known dimensions, which for this operation are part of a model's validity."""
    op.count(4, names=FullyConnectedInput)
    main = op.tensor(FullyConnectedInput.INPUT, {F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=(2, 4))
    op.same(FullyConnectedInput.WEIGHTS, FullyConnectedInput.INPUT, rank=2)
    op.tensor(FullyConnectedInput.BIAS, {I32 if main in QUANT8 else main: 1}, rank=1)
    op.scalar(FullyConnectedInput.ACTIVATION, INT32)
    op.output(0, main, rank=2)
    note_scale_constraint(op)
    if all(
        op.inputs[i].dimensions
        for i in (FullyConnectedInput.INPUT, FullyConnectedInput.WEIGHTS, FullyConnectedInput.BIAS)
    ):
        _dimensions(op.context)


def prepare_fully_connected(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return [batch, units]. The batch is the number of rows of the weights' length that the input's elements make."""
    activation_of(op, FullyConnectedInput.ACTIVATION)
    dimensions = _dimensions(op)
    require_bias(op, dimensions[1])
    return (dimensions,)


def _dimensions(op: OperationContext) -> Dimensions:
    given = op.ranked(FullyConnectedInput.INPUT, (2, 4))
    units, size = op.ranked(FullyConnectedInput.WEIGHTS, 2)
    bias = op.ranked(FullyConnectedInput.BIAS, 1)
    if op.executing and 0 in (units, size):
        op.refuse(f"the weights have dimensions {[units, size]}, expected no 0")
    if units and bias[0] not in (0, units):
        op.refuse(f"the bias has {bias[0]} elements, expected {units}, the rows of the weights")
    if size == 0 or (0 in given and not op.executing):
        return (0, units or bias[0])
    if prod(given) % size:
        op.refuse(
            f"the input has dimensions {describe(given)}, expected a multiple of {size} elements, "
            "the columns of the weights"
        )
    return (prod(given) // size, units or bias[0])


FULLY_CONNECTED = OperationDefinition(
    OperationType.FULLY_CONNECTED,
    1,
    validate_fully_connected,
    prepare_fully_connected,
    compares_lengths=True,
    layout=ReadsFlat(),
    work=of_matrix,
)


class BatchMatmulInput(IntEnum):
    FIRST = 0
    """[batches ..., rows, columns]."""
    SECOND = 1
    """[batches ..., rows, columns]."""
    TRANSPOSE_FIRST = 2
    """True if the first is transposed."""
    TRANSPOSE_SECOND = 3
    """True if the second is transposed."""


def validate_batch_matmul(op: Signature) -> None:
    """Require two tensors of one type and rank, 2 to 4, and two flags."""
    op.count(4, names=BatchMatmulInput)
    main = op.tensor(BatchMatmulInput.FIRST, {F16: 6, F32: 6, I32: 6, Q8AS: 6}, rank=(2, 4))
    op.same(BatchMatmulInput.SECOND, BatchMatmulInput.FIRST, rank=(2, 4))
    op.scalar(BatchMatmulInput.TRANSPOSE_FIRST, BOOL)
    op.scalar(BatchMatmulInput.TRANSPOSE_SECOND, BOOL)
    op.output(0, main)


def prepare_batch_matmul(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the batch, the rows of the first input and the columns of the second. Batches do not broadcast."""
    first = _oriented(op.ranked(BatchMatmulInput.FIRST), op.boolean(BatchMatmulInput.TRANSPOSE_FIRST))
    second = _oriented(op.ranked(BatchMatmulInput.SECOND), op.boolean(BatchMatmulInput.TRANSPOSE_SECOND))
    batch = combine(first[:-2], second[:-2])
    if len(first) != len(second) or batch is None or combine(first[-1:], second[-2:-1]) is None:
        op.refuse(f"matrices of {describe(first)} and {describe(second)}, after transposition, cannot be multiplied")
    return ((*(batch or ()), first[-2], second[-1]),)


def _oriented(dimensions: Dimensions, transpose: bool) -> Dimensions:
    return (*dimensions[:-2], dimensions[-1], dimensions[-2]) if transpose else dimensions


BATCH_MATMUL = OperationDefinition(
    OperationType.BATCH_MATMUL, 6, validate_batch_matmul, prepare_batch_matmul, work=of_product
)
