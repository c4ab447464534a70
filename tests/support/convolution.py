"""Convolutions written as explicit sums, as references for tests."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array

Pair = tuple[int, int]


def convolution(
    images: Array, filters: Array, strides: Pair, paddings: tuple[Pair, Pair], dilations: Pair = (1, 1), groups: int = 1
) -> Array:
    """Convolve images [b, h, w, c] with filters [out, h, w, c / groups]; pairs are (height, width)."""
    padded = np.pad(images.astype(np.float64), ((0, 0), *paddings, (0, 0)))
    channels, rows, columns, depth = filters.shape
    reach = [(size - 1) * dilation + 1 for size, dilation in zip((rows, columns), dilations, strict=True)]
    height, width = ((padded.shape[i + 1] - reach[i]) // strides[i] + 1 for i in (0, 1))
    result = np.zeros((len(images), height, width, channels))
    for y, x, channel in np.ndindex(height, width, channels):
        first = channel // (channels // groups) * depth
        top, left = y * strides[0], x * strides[1]
        seen = padded[
            :, top : top + reach[0] : dilations[0], left : left + reach[1] : dilations[1], first : first + depth
        ]
        result[:, y, x, channel] = (seen * filters[channel]).sum(axis=(1, 2, 3))
    return result


def transposed_convolution(images: Array, filters: Array, strides: Pair, paddings: tuple[Pair, Pair]) -> Array:
    """Convolve images [b, h, w, c] transposed with filters [out, h, w, c]: every element adds its filter."""
    batch, height, width, _ = images.shape
    channels, rows, columns, _ = filters.shape
    canvas = np.zeros((batch, (height - 1) * strides[0] + rows, (width - 1) * strides[1] + columns, channels))
    for b, y, x in np.ndindex(batch, height, width):
        top, left = y * strides[0], x * strides[1]
        canvas[b, top : top + rows, left : left + columns] += np.einsum("i,ohwi->hwo", images[b, y, x], filters)
    (top, bottom), (left, right) = paddings
    return canvas[:, top : canvas.shape[1] - bottom, left : canvas.shape[2] - right]
