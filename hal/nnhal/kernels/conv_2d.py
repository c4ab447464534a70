"""CONV_2D."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._convolution import factors, finish
from nnhal.kernels._images import channels_last, in_layout, taps
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations._window import Window
from nnhal.operations.convolution import window_of_conv_2d


def conv_2d(op: OperationContext) -> tuple[Array, ...]:
    """The sums over each window of input x filter."""
    return (convolve(op, window_of_conv_2d(op)),)


def convolve(op: OperationContext, window: Window) -> Array:
    """A convolution in groups: one matrix product for each tap of the window and each group of channels."""
    images, filters = factors(op)
    images = channels_last(images, window.channels_first)
    channels, height, width, depth = filters.shape
    batch, rows, columns = len(images), window.height.output(images.shape[1]), window.width.output(images.shape[2])
    by_tap = filters.reshape(window.groups, -1, height, width, depth).transpose(2, 3, 0, 4, 1)
    sums = np.zeros((window.groups, batch * rows * columns, channels // window.groups), images.dtype)
    for row, column, seen in taps(images, window):
        sums += seen.reshape(-1, window.groups, depth).swapaxes(0, 1) @ by_tap[row, column]
    places = sums.swapaxes(0, 1).reshape(batch, rows, columns, channels)
    return in_layout(finish(op, places, window.activation), window.channels_first)
