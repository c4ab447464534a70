"""LOG_SOFTMAX."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.activation import LogSoftmaxInput


def log_softmax(op: OperationContext) -> tuple[Array, ...]:
    """x * beta - log(sum of exp(x * beta)); subtracting the largest keeps exp from overflowing."""
    axis = op.integer(LogSoftmaxInput.AXIS)
    values = to_real(op, LogSoftmaxInput.INPUT) * np.float32(op.real(LogSoftmaxInput.BETA))
    values = values - values.max(axis=axis, keepdims=True, initial=-np.inf)
    return (from_real(op, values - np.log(np.exp(values).sum(axis=axis, keepdims=True))),)
