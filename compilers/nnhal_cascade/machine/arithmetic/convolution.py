"""CONV_2D, TRANSPOSE_CONV_2D and FULLY_CONNECTED as matrix products, and what a window sees of a part of an axis."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from nnhal.arrays import Array
from nnhal.operations.convolution import window_of_conv_2d, window_of_transpose_conv_2d
from nnhal.operations.filters import INPUT
from nnhal.operations.matrix import FullyConnectedInput
from nnhal.operations.windows import Axis, Window, activation_of
from nnhal_cascade.geometry.box import Box, Interval, Shape
from nnhal_cascade.machine.arithmetic.kernel import NoStripesError, OperationCall
from nnhal_cascade.machine.arithmetic.weighted_sum import WeightedSum


class Slide(NamedTuple):
    """Elements that the windows of some outputs see: elements of the input, and what is around them."""

    seen: Interval
    """From the first to the last element under a tap."""
    before: int
    """Elements before it that the windows cover: padding, and elements that lie between taps."""
    after: int
    """Elements after it, likewise."""


def slide(axis: Axis, length: int, wanted: Interval) -> Slide:
    """Return what the windows of an interval of the output see of an axis of ``length`` elements."""
    start = wanted.start * axis.stride - axis.before
    stop = (wanted.stop - 1) * axis.stride - axis.before + axis.reach
    if axis.dilation == 1 and axis.stride <= axis.size:
        seen = Interval(min(max(start, 0), length), min(max(stop, 0), length))
    else:
        seen = _under_taps(axis, length, wanted)
    before = min(max(seen.start - start, 0), stop - start)
    return Slide(seen, before, stop - start - before - seen.length)


def _under_taps(axis: Axis, length: int, wanted: Interval) -> Interval:
    """Return what a window with gaps, or with gaps to the next one, sees."""
    starts = np.arange(*wanted) * axis.stride - axis.before
    taps = np.add.outer(starts, np.arange(axis.size) * axis.dilation)
    taps = taps[(taps >= 0) & (taps < length)]
    return Interval(int(taps.min()), int(taps.max()) + 1) if taps.size else Interval(0, 0)


def under(window: Window, rows: int, columns: int, output: Box) -> tuple[Slide, Slide]:
    """Return what the windows of a box of the output see of an image."""
    return slide(window.height, rows, output.rows), slide(window.width, columns, output.columns)


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


class FullyConnected:
    """FULLY_CONNECTED of n rows: [1, n, features] to [1, n, units]."""

    def __init__(self, call: OperationCall) -> None:
        self._sum = WeightedSum(call.op, activation_of(call.op, FullyConnectedInput.ACTIVATION), channel_axis=0)
        self._matrix = np.ascontiguousarray(self._sum.filters.T)
        features = len(self._matrix)
        self.inputs = (Shape(1, prod(call.op.dimensions(FullyConnectedInput.INPUT)) // features, features),)

    def reads(self, output: Box) -> tuple[Box, ...]:
        """The rows of the input, whole."""
        return (Box(Interval(0, 1), output.columns, Interval(0, len(self._matrix))),)

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """One matrix product."""
        sums = values[0][0].astype(self._sum.dtype) @ self._matrix[:, slice(*output.channels)]
        return self._sum.finish(sums, output.channels)[np.newaxis]


class TransposeConvolution:
    """TRANSPOSE_CONV_2D. Element i of the input adds through tap t to element i * stride + t - before of the output."""

    def __init__(self, call: OperationCall) -> None:
        self.inputs = (call.shape(INPUT),)
        self._window = channels_last(window_of_transpose_conv_2d(call.op))
        self._sum = WeightedSum(call.op, self._window.activation, channel_axis=0, centred=True)
        self._taps = np.ascontiguousarray(self._sum.filters.transpose(1, 2, 3, 0))

    def reads(self, output: Box) -> tuple[Box, ...]:
        """The elements that add to the box, of all channels."""
        rows, columns, channels = self.inputs[0]
        return (
            Box(
                _adding(self._window.height, rows, output.rows),
                _adding(self._window.width, columns, output.columns),
                Interval(0, channels),
            ),
        )

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """Tap by tap."""
        (image,), (box,) = values, self.reads(output)
        height, width = self._window.height, self._window.width
        taps = self._taps[..., slice(*output.channels)]
        sums = np.zeros(output.shape, self._sum.dtype)
        image = image.astype(self._sum.dtype) - self._sum.dtype.type(self._sum.zero_point)
        for row in range(height.size):
            above, to_rows = _through(height, row, box.rows, output.rows)
            for column in range(width.size):
                left, to_columns = _through(width, column, box.columns, output.columns)
                sums[to_rows, to_columns] += image[above, left] @ taps[row, column]
        return self._sum.finish(sums, output.channels)


def _adding(axis: Axis, length: int, wanted: Interval) -> Interval:
    """The elements of the input that add to an interval of the output."""
    first = -(-(wanted.start + axis.before - axis.size + 1) // axis.stride)
    last = (wanted.stop - 1 + axis.before) // axis.stride
    start = min(max(first, 0), length)
    return Interval(start, max(start, min(last + 1, length)))


def _through(axis: Axis, tap: int, given: Interval, wanted: Interval) -> tuple[slice, slice]:
    """The elements of the given input that add through one tap to the wanted output, and those that they add to."""
    offset = tap - axis.before
    first = max(given.start, -(-(wanted.start - offset) // axis.stride))
    last = min(given.stop, (wanted.stop - 1 - offset) // axis.stride + 1)
    if last <= first:
        return slice(0, 0), slice(0, 0)
    start = first * axis.stride + offset - wanted.start
    return slice(first - given.start, last - given.start), slice(
        start, start + (last - first - 1) * axis.stride + 1, axis.stride
    )
