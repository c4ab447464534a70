"""TRANSPOSE_CONV_2D."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._convolution import factors, finish
from nnhal.kernels._images import channels_last, in_layout
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations._window import Axis
from nnhal.operations.convolution import images_out, window_of_transpose_conv_2d


def transpose_conv_2d(op: OperationContext) -> tuple[Array, ...]:
    """Each tap of the filter adds to elements a stride apart, on a canvas whose paddings are cut off in the end."""
    window, output = window_of_transpose_conv_2d(op), images_out(op)
    height, width = window.height, window.width
    images, filters = factors(op)
    images = channels_last(images, window.channels_first)
    batch, rows, columns, _ = images.shape
    canvas = np.zeros(
        (batch, _reach(height, rows, output.height), _reach(width, columns, output.width), len(filters)), images.dtype
    )
    for row in range(height.size):
        for column in range(width.size):
            places = _places(height, row, rows), _places(width, column, columns)
            canvas[:, *places] += images @ filters[:, row, column].T
    sums = canvas[:, height.before : height.before + output.height, width.before : width.before + output.width]
    return (in_layout(finish(op, sums, window.activation), window.channels_first),)


def _reach(axis: Axis, length: int, output: int) -> int:
    return max((length - 1) * axis.stride + axis.size, axis.before + output)


def _places(axis: Axis, tap: int, length: int) -> slice:
    return slice(tap, tap + (length - 1) * axis.stride + 1, axis.stride)
