"""CONV_2D: a matrix product of the elements under each window, a row of a matrix, with the filters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from nnhal.arrays import Array
from nnhal.operations._convolution import INPUT
from nnhal.operations._window import Window
from nnhal.operations.convolution import window_of_conv_2d
from nnhal_cascade.geometry.box import Box, Interval
from nnhal_cascade.machine.arithmetic.kernel import NoStripesError, OperationCall
from nnhal_cascade.machine.arithmetic.sliding import under
from nnhal_cascade.machine.arithmetic.weighted_sum import WeightedSum

_ELEMENTS_AT_ONCE = 1 << 18
"""Elements of the matrix that are laid out at a time, so that they stay in the processor's cache."""


class Convolution:
    """CONV_2D."""

    def __init__(self, call: OperationCall) -> None:
        self.inputs = (call.shape(INPUT),)
        self._window = channels_last(window_of_conv_2d(call.op))
        self._sum = WeightedSum(call.op, self._window.activation, channel_axis=0)
        self._matrix = np.ascontiguousarray(self._sum.filters.reshape(len(self._sum.filters), -1).T)

    def reads(self, output: Box) -> tuple[Box, ...]:
        """The rows and columns under the windows, of all channels."""
        rows, columns, channels = self.inputs[0]
        height, width = under(self._window, rows, columns, output)
        return (Box(height.seen, width.seen, Interval(0, channels)),)

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """Some rows at a time."""
        image = self._padded(output, values[0])
        first, last = output.channels
        matrix = self._matrix if last - first == self._matrix.shape[1] else self._matrix[:, first:last]
        rows, columns, channels = output.shape
        step = max(1, _ELEMENTS_AT_ONCE // (columns * len(matrix)))
        stride = self._window.height.stride
        windows = (
            self._under_windows(image[start * stride :], min(step, rows - start), columns)
            for start in range(0, rows, step)
        )
        parts = [self._sum.finish(each @ matrix, output.channels) for each in windows]
        return (parts[0] if len(parts) == 1 else np.concatenate(parts)).reshape(rows, columns, channels)

    def _padded(self, output: Box, image: Array) -> Array:
        rows, columns, _ = self.inputs[0]
        height, width = under(self._window, rows, columns, output)
        return with_border(image, (height.before, height.after), (width.before, width.after), self._sum.zero_point)

    def _under_windows(self, image: Array, rows: int, columns: int) -> Array:
        """A row of the matrix for each window."""
        height, width = self._window.height, self._window.width
        down, right, deep = image.strides
        shape = (rows, columns, height.size, width.size, image.shape[2])
        strides = (down * height.stride, right * width.stride, down * height.dilation, right * width.dilation, deep)
        windows = as_strided(image, shape, strides, writeable=False)
        return windows.astype(self._sum.dtype, order="C").reshape(rows * columns, -1)


def channels_last(window: Window) -> Window:
    """Return a window, if its images have their channels last. Raises NoStripesError."""
    if window.channels_first:
        raise NoStripesError("images of [batch, channels, height, width], expected the channels last")
    return window


def with_border(image: Array, rows: tuple[int, int], columns: tuple[int, int], value: int) -> Array:
    """Return an image with a border of a value; the numbers are of elements before and after."""
    if not any(rows) and not any(columns):
        return image
    height, width, channels = image.shape
    padded = np.full((height + sum(rows), width + sum(columns), channels), value, image.dtype)
    padded[rows[0] : rows[0] + height, columns[0] : columns[0] + width] = image
    return padded
