"""SOFTMAX."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.activation import SoftmaxInput


def softmax(op: OperationContext) -> tuple[Array, ...]:
    """exp((x - max) * beta) / sum of the same; subtracting the largest keeps exp from overflowing."""
    values = to_real(op, SoftmaxInput.INPUT)
    axis = op.integer(SoftmaxInput.AXIS, default=-1)
    powers = np.exp((values - values.max(axis=axis, keepdims=True)) * np.float32(op.real(SoftmaxInput.BETA)))
    return (from_real(op, powers / powers.sum(axis=axis, keepdims=True)),)
