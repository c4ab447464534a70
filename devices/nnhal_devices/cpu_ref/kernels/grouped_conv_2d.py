"""GROUPED_CONV_2D."""

from __future__ import annotations

from nnhal.operations import OperationContext
from nnhal.operations.grouped_conv_2d import window_of
from nnhal_devices.cpu_ref.kernels._types import Array
from nnhal_devices.cpu_ref.kernels.conv_2d import convolve


def grouped_conv_2d(op: OperationContext) -> tuple[Array, ...]:
    """A convolution for each group of channels."""
    return (convolve(op, window_of(op)),)
