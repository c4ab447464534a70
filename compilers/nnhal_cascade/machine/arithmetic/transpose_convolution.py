"""TRANSPOSE_CONV_2D: each tap of the filter adds to elements a stride apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal.operations._convolution import INPUT
from nnhal.operations._window import Axis
from nnhal.operations.convolution import window_of_transpose_conv_2d
from nnhal_cascade.geometry.box import Box, Interval
from nnhal_cascade.machine.arithmetic.convolution import channels_last
from nnhal_cascade.machine.arithmetic.kernel import OperationCall
from nnhal_cascade.machine.arithmetic.weighted_sum import WeightedSum


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
