"""Images as the kernels use them: [batch, height, width, channels]."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nnhal.kernels.array_types import Array
from nnhal.operations.windows import Axis, Window


def channels_last(images: Array, channels_first: bool) -> Array:
    return np.moveaxis(images, 1, 3) if channels_first else images


def in_layout(images: Array, channels_first: bool) -> Array:
    return np.moveaxis(images, 3, 1) if channels_first else images


def padded(images: Array, height: Axis, width: Axis, value: float = 0) -> Array:
    borders = ((0, 0), (height.before, height.after), (width.before, width.after), (0, 0))
    if not any(map(any, borders)):
        return images
    return np.pad(images, borders, constant_values=value)


def taps(images: Array, window: Window) -> Iterator[tuple[int, int, Array]]:
    """For each tap of a window, by row and column: the elements under it at each place of the window."""
    height, width = window.height, window.width
    rows, columns = height.output(images.shape[1]), width.output(images.shape[2])
    images = padded(images, height, width)
    for row in range(height.size):
        for column in range(width.size):
            yield row, column, images[:, _places(height, row, rows), _places(width, column, columns)]


def _places(axis: Axis, tap: int, count: int) -> slice:
    first = tap * axis.dilation
    return slice(first, first + (count - 1) * axis.stride + 1, axis.stride)
