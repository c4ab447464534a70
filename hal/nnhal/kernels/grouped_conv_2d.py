"""GROUPED_CONV_2D."""

from __future__ import annotations

from nnhal.kernels._types import Array
from nnhal.kernels.conv_2d import convolve
from nnhal.operations import OperationContext
from nnhal.operations.convolution import window_of_grouped_conv_2d


def grouped_conv_2d(op: OperationContext) -> tuple[Array, ...]:
    """A convolution for each group of channels."""
    return (convolve(op, window_of_grouped_conv_2d(op)),)
