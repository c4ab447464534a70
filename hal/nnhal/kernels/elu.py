"""ELU."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.activation import EluInput


def elu(op: OperationContext) -> tuple[Array, ...]:
    """x, or alpha * (exp(x) - 1) if x is negative; expm1 keeps the digits of a small x."""
    values = to_real(op, EluInput.INPUT)
    return (from_real(op, np.where(values < 0, np.float32(op.real(EluInput.ALPHA)) * np.expm1(values), values)),)
