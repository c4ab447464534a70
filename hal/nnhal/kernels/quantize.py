"""QUANTIZE."""

from __future__ import annotations

from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.conversion import QuantizeInput


def quantize(op: OperationContext) -> tuple[Array, ...]:
    """x / scale + zero point, rounded and clamped."""
    return (from_real(op, to_real(op, QuantizeInput.INPUT)),)
