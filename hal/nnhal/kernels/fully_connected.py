"""FULLY_CONNECTED."""

from __future__ import annotations

from nnhal.kernels._convolution import factors, finish
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations._window import activation_of
from nnhal.operations.matrix import FullyConnectedInput


def fully_connected(op: OperationContext) -> tuple[Array, ...]:
    """The input as rows, times the transposed weights."""
    values, weights = factors(op)
    sums = values.reshape(-1, weights.shape[1]) @ weights.T
    return (finish(op, sums, activation_of(op, FullyConnectedInput.ACTIVATION)),)
