"""LOGISTIC."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.activation import LogisticInput


def logistic(op: OperationContext) -> tuple[Array, ...]:
    """1 / (1 + exp(-x)). If exp overflows, infinity leads to the right result, 0."""
    return (from_real(op, np.float32(1) / (np.float32(1) + np.exp(-to_real(op, LogisticInput.INPUT)))),)
