"""DEPTHWISE_CONV_2D."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._convolution import factors, finish
from nnhal.kernels._images import channels_last, in_layout, taps
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.convolution import window_of_depthwise_conv_2d


def depthwise_conv_2d(op: OperationContext) -> tuple[Array, ...]:
    """Output channel c belongs to input channel c // multiplier, so each of those is repeated."""
    window = window_of_depthwise_conv_2d(op)
    images, filters = factors(op)
    images = np.repeat(channels_last(images, window.channels_first), window.multiplier, axis=3)
    batch, rows, columns = len(images), window.height.output(images.shape[1]), window.width.output(images.shape[2])
    sums = np.zeros((batch, rows, columns, filters.shape[3]), images.dtype)
    for row, column, seen in taps(images, window):
        sums += seen * filters[0, row, column]
    return (in_layout(finish(op, sums, window.activation), window.channels_first),)
