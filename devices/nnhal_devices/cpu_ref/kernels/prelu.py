"""PRELU."""

from __future__ import annotations

import numpy as np

from nnhal.operations import OperationContext
from nnhal.operations.prelu import Input
from nnhal_devices.cpu_ref.kernels._quantization import from_real, to_real
from nnhal_devices.cpu_ref.kernels._types import Array


def prelu(op: OperationContext) -> tuple[Array, ...]:
    """x, or alpha * x if x is negative."""
    values, alpha = to_real(op, Input.FIRST), to_real(op, Input.SECOND)
    return (from_real(op, np.where(values < 0, alpha * values, values)),)
