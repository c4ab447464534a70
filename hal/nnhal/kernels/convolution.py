"""Convolutions: filters slide over images."""

from __future__ import annotations

import numpy as np

from nnhal.kernels.array_types import Array
from nnhal.kernels.filters import factors, finish
from nnhal.kernels.images import channels_last, in_layout, taps
from nnhal.operations import OperationContext
from nnhal.operations.convolution import (
    images_out,
    window_of_conv_2d,
    window_of_depthwise_conv_2d,
    window_of_grouped_conv_2d,
    window_of_transpose_conv_2d,
)
from nnhal.operations.windows import Axis, Window


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


def grouped_conv_2d(op: OperationContext) -> tuple[Array, ...]:
    return (convolve(op, window_of_grouped_conv_2d(op)),)


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
