"""DEPTHWISE_CONV_2D: for each tap of the window, the elements under it times the tap's weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal.operations.convolution import window_of_depthwise_conv_2d
from nnhal.operations.filters import INPUT
from nnhal_cascade.geometry.box import Box, Interval
from nnhal_cascade.machine.arithmetic.convolution import channels_last, under, with_border
from nnhal_cascade.machine.arithmetic.kernel import OperationCall
from nnhal_cascade.machine.arithmetic.weighted_sum import WeightedSum

_ELEMENTS_AT_ONCE = 1 << 16
"""Elements of the output that are summed at a time, so that they stay in the processor's cache."""


class Depthwise:
    """DEPTHWISE_CONV_2D. Output channel c belongs to input channel c // multiplier."""

    def __init__(self, call: OperationCall) -> None:
        self.inputs = (call.shape(INPUT),)
        self._window = channels_last(window_of_depthwise_conv_2d(call.op))
        self._sum = WeightedSum(call.op, self._window.activation, channel_axis=3)

    def reads(self, output: Box) -> tuple[Box, ...]:
        """The rows and columns under the windows, of the channels that the output's belong to."""
        rows, columns, _ = self.inputs[0]
        height, width = under(self._window, rows, columns, output)
        first, last = output.channels
        multiplier = self._window.multiplier
        return (Box(height.seen, width.seen, Interval(first // multiplier, -(-last // multiplier))),)

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """Some rows at a time."""
        image = self._padded(output, values[0])
        rows, columns, channels = output.shape
        step = max(1, _ELEMENTS_AT_ONCE // (columns * channels))
        stride = self._window.height.stride
        parts = [
            self._sum.finish(
                self._sums(image[start * stride :], min(step, rows - start), columns, output.channels), output.channels
            )
            for start in range(0, rows, step)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _padded(self, output: Box, image: Array) -> Array:
        """The elements under the windows with their border, one channel for each of the output's."""
        rows, columns, _ = self.inputs[0]
        height, width = under(self._window, rows, columns, output)
        zero_point, multiplier = self._sum.zero_point, self._window.multiplier
        image = with_border(image, (height.before, height.after), (width.before, width.after), zero_point)
        if multiplier > 1:
            skipped = output.channels.start % multiplier
            image = np.repeat(image, multiplier, axis=2)[:, :, skipped : skipped + output.channels.length]
        return image.astype(self._sum.dtype)

    def _sums(self, image: Array, rows: int, columns: int, channels: Interval) -> Array:
        height, width = self._window.height, self._window.width
        sums = np.zeros((rows, columns, channels.length), self._sum.dtype)
        product = np.empty_like(sums)
        for row in range(height.size):
            top = row * height.dilation
            for column in range(width.size):
                left = column * width.dilation
                seen = image[
                    top : top + (rows - 1) * height.stride + 1 : height.stride,
                    left : left + (columns - 1) * width.stride + 1 : width.stride,
                ]
                np.multiply(seen, self._sum.filters[0, row, column, channels.start : channels.stop], out=product)
                sums += product
        return sums
