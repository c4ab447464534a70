"""PRELU."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.elementwise import PairwiseInput


def prelu(op: OperationContext) -> tuple[Array, ...]:
    """x, or alpha * x if x is negative."""
    values, alpha = to_real(op, PairwiseInput.FIRST), to_real(op, PairwiseInput.SECOND)
    return (from_real(op, np.where(values < 0, alpha * values, values)),)
