"""QUANTIZE."""

from __future__ import annotations

from nnhal.operations import OperationContext
from nnhal.operations.quantize import Input
from nnhal_devices.cpu_ref.kernels._quantization import from_real, to_real
from nnhal_devices.cpu_ref.kernels._types import Array


def quantize(op: OperationContext) -> tuple[Array, ...]:
    """x / scale + zero point, rounded and clamped."""
    return (from_real(op, to_real(op, Input.INPUT)),)
