"""Products of matrices.

FULLY_CONNECTED: input x weights^T + bias, with a fused activation.

BATCH_MATMUL: matrix products of two batches of matrices; either batch may be transposed first.
"""

from __future__ import annotations

from math import prod

from nnhal.operations.context import OperationContext, Signature
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.filters import note_scale_constraint, require_bias
from nnhal.operations.layout_rules import ReadsFlat
from nnhal.operations.operand_types import BOOL, F16, F32, I32, INT32, Q8A, Q8AS, QUANT8
from nnhal.operations.operands import (
    Inputs,
    follows,
    same,
    scalar,
    signature,
    tensor,
)
from nnhal.operations.windows import activation_of
from nnhal.operations.work import of_matrix, of_product
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions, combine, describe


def _bias_type(main: int) -> OperandType:
    return I32 if main in QUANT8 else OperandType(main)


class FullyConnectedInput(Inputs):
    INPUT = tensor({F32: 1, Q8A: 1, F16: 3, Q8AS: 4}, rank=(2, 4)), "Rank 2 to 4, read as [batch, input size]."
    WEIGHTS = same(rank=2), "[units, input size]."
    BIAS = follows(_bias_type, rank=1), "[units]."
    ACTIVATION = scalar(INT32)


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


def _require_matrix(op: Signature) -> None:
    """Check known dimensions, which for this operation are part of a model's validity."""
    tensors = (FullyConnectedInput.INPUT, FullyConnectedInput.WEIGHTS, FullyConnectedInput.BIAS)
    if all(op.inputs[index].dimensions for index in tensors):
        _dimensions(op.context)


FULLY_CONNECTED = OperationDefinition(
    OperationType.FULLY_CONNECTED,
    1,
    signature(FullyConnectedInput, same(rank=2), further=[note_scale_constraint, _require_matrix]),
    prepare_fully_connected,
    compares_lengths=True,
    layout=ReadsFlat(),
    work=of_matrix,
)


class BatchMatmulInput(Inputs):
    FIRST = tensor({F16: 6, F32: 6, I32: 6, Q8AS: 6}, rank=(2, 4)), "[batches ..., rows, columns]."
    SECOND = same(rank=(2, 4)), "[batches ..., rows, columns]."
    TRANSPOSE_FIRST = scalar(BOOL), "True if the first is transposed."
    TRANSPOSE_SECOND = scalar(BOOL), "True if the second is transposed."


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
    OperationType.BATCH_MATMUL, 6, signature(BatchMatmulInput, same()), prepare_batch_matmul, work=of_product
)
