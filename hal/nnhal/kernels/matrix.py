"""Products of matrices."""

from __future__ import annotations

import numpy as np

from nnhal.kernels.array_types import Array
from nnhal.kernels.filters import factors, finish
from nnhal.kernels.quantization import from_real, requantize, to_real
from nnhal.operations import OperationContext
from nnhal.operations.matrix import BatchMatmulInput, FullyConnectedInput
from nnhal.operations.operand_types import I32, QUANT8
from nnhal.operations.windows import activation_of
from nnhal.types import FusedActivation


def fully_connected(op: OperationContext) -> tuple[Array, ...]:
    """The input as rows, times the transposed weights."""
    values, weights = factors(op)
    sums = values.reshape(-1, weights.shape[1]) @ weights.T
    return (finish(op, sums, activation_of(op, FullyConnectedInput.ACTIVATION)),)


def batch_matmul(op: OperationContext) -> tuple[Array, ...]:
    """The matrix products. Integers wrap around, quantised products are summed up exactly."""
    if op.main_type() == I32:
        return (_product(op, op.value(BatchMatmulInput.FIRST), op.value(BatchMatmulInput.SECOND)),)
    if op.main_type() not in QUANT8:
        return (from_real(op, _product(op, to_real(op, BatchMatmulInput.FIRST), to_real(op, BatchMatmulInput.SECOND))),)
    first, second = (
        op.value(i).astype(np.int64) - op.inputs[i].zero_point
        for i in (BatchMatmulInput.FIRST, BatchMatmulInput.SECOND)
    )
    multiplier = (
        op.inputs[BatchMatmulInput.FIRST].scale * op.inputs[BatchMatmulInput.SECOND].scale / op.outputs[0].scale
    )
    return (requantize(_product(op, first, second), multiplier, op.outputs[0], FusedActivation.NONE),)


def _product(op: OperationContext, first: Array, second: Array) -> Array:
    if op.boolean(BatchMatmulInput.TRANSPOSE_FIRST):
        first = first.swapaxes(-1, -2)
    if op.boolean(BatchMatmulInput.TRANSPOSE_SECOND):
        second = second.swapaxes(-1, -2)
    product: Array = np.matmul(first, second)
    return product
