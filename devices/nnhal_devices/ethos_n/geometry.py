"""Part of its tensors that an operation needs for one stripe of its output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from nnhal.operations import OperationContext
from nnhal.operations.convolution import window_of_conv_2d, window_of_depthwise_conv_2d, window_of_transpose_conv_2d
from nnhal.operations.filters import FILTER, INPUT
from nnhal.operations.pooling import window_of
from nnhal.operations.windows import Axis
from nnhal.support.npu import as_images
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions

_BIAS_BYTES = 4
_FACTOR = 2


@dataclass(frozen=True, slots=True)
class Geometry:
    """Facts of an operation that decide its stripes. One element is one byte."""

    height: int
    """Rows of the output."""

    channels: int
    """Channels of the output."""

    channel_bytes: int
    """One channel of one row of the output."""

    input_height: int
    """Rows of the input."""

    row_bytes: int
    """One row of the input, with all channels."""

    reach: int = 1
    """Rows of the input that the first row of the output needs."""

    step: int = 1
    """Rows of the input that every further ``growth`` rows of the output need."""

    growth: int = 1
    """Rows of the output for each ``step``."""

    weight_bytes: int = 0
    """Filter and bias of one channel."""

    by_channel: bool = True
    """True if a part of the channels needs only that part of the input."""

    def stripe_bytes(self, rows: int, channels: int) -> int:
        """The SRAM for a stripe of the output: its input, the weights of its channels, and itself."""
        taken = min(self.input_height, -(-(rows - 1) * self.step // self.growth) + self.reach) * self.row_bytes
        if self.by_channel:
            taken = -(-taken * channels // self.channels)
        return taken + channels * self.weight_bytes + rows * channels * self.channel_bytes


def _images(op: OperationContext, outputs: Sequence[Dimensions]) -> Geometry:
    """An operation from images to images, row by row and channel by channel."""
    _, input_height, input_width, depth = as_images(op.dimensions(INPUT))
    _, height, width, channels = as_images(outputs[0])
    return Geometry(height, channels, width, input_height, input_width * depth)


def by_element(op: OperationContext, outputs: Sequence[Dimensions]) -> Geometry:
    """An elementwise operation, or one that only moves bytes: it may be cut anywhere."""
    _, height, width, channels = as_images(outputs[0])
    row_bytes = width * channels * len(outputs)
    tensors = len(op.inputs) - 1 if op.type in (OperationType.ADD, OperationType.MUL) else 1
    return Geometry(height, channels, width * len(outputs), height, row_bytes * tensors)


def _windowed(op: OperationContext, outputs: Sequence[Dimensions], axis: Axis) -> Geometry:
    """An operation from images to images by a window, whose height is ``axis``."""
    return replace(_images(op, outputs), reach=axis.reach, step=axis.stride)


def conv_2d(op: OperationContext, outputs: Sequence[Dimensions]) -> Geometry:
    weights = prod(op.dimensions(FILTER)[1:]) + _BIAS_BYTES
    geometry = _windowed(op, outputs, window_of_conv_2d(op).height)
    return replace(geometry, weight_bytes=weights, by_channel=False)


def depthwise_conv_2d(op: OperationContext, outputs: Sequence[Dimensions]) -> Geometry:
    weights = prod(op.dimensions(FILTER)[:3]) + _BIAS_BYTES
    alone = op.dimensions(INPUT)[-1] == outputs[0][-1]
    geometry = _windowed(op, outputs, window_of_depthwise_conv_2d(op).height)
    return replace(geometry, weight_bytes=weights, by_channel=alone)


def transpose_conv_2d(op: OperationContext, outputs: Sequence[Dimensions]) -> Geometry:
    weights, axis = prod(op.dimensions(FILTER)[1:]) + _BIAS_BYTES, window_of_transpose_conv_2d(op).height
    reach = -(-axis.size // axis.stride)
    return replace(_images(op, outputs), weight_bytes=weights, by_channel=False, reach=reach, growth=axis.stride)


def fully_connected(op: OperationContext, outputs: Sequence[Dimensions]) -> Geometry:
    units, size = op.dimensions(FILTER)
    del outputs
    return Geometry(1, units, 1, 1, size, weight_bytes=size + _BIAS_BYTES, by_channel=False)


def pooled(op: OperationContext, outputs: Sequence[Dimensions]) -> Geometry:
    return _windowed(op, outputs, window_of(op).height)


def averaged(op: OperationContext, outputs: Sequence[Dimensions]) -> Geometry:
    _, height, width, channels = as_images(op.dimensions(INPUT))
    del outputs
    return Geometry(1, channels, 1, height, width * channels, reach=height)


def doubled(op: OperationContext, outputs: Sequence[Dimensions]) -> Geometry:
    return replace(_images(op, outputs), reach=_FACTOR, growth=_FACTOR)


def depth_to_space(op: OperationContext, outputs: Sequence[Dimensions]) -> Geometry:
    return replace(_images(op, outputs), growth=_FACTOR, by_channel=False)
