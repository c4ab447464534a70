"""Which inputs and outputs are pictures, and how their pixels lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np

from nnhal.arrays import Array

_CHANNELS = (1, 3)
_LEAST_EXTENT = 4
"""Pictures with fewer rows or columns are taken for something else."""
_MOST_DRAWN = 64
"""Squares of one channel up to this many pixels wide are drawn on by default."""


@dataclass(frozen=True, slots=True)
class PixelFrame:
    """A picture in an array."""

    height: int
    width: int
    channels: int
    """1 for grey, 3 for red, green and blue."""
    channels_first: bool

    @property
    def suits_drawing(self) -> bool:
        """Whether it is like the pictures of digits that data sets have."""
        return self.channels == 1 and self.height == self.width <= _MOST_DRAWN

    @property
    def words(self) -> str:
        """Its size and its colours."""
        return f"{self.width} × {self.height}, {'grey' if self.channels == 1 else 'colours'}"  # noqa: RUF001


def frame_of(dimensions: Sequence[int]) -> PixelFrame | None:
    """Return how a picture lies in an array of these dimensions; None if none does.

    Takes [N, H, W, C], [N, C, H, W], the same without N, [H, W], and flat squares such as [N, 784]. C is 1 or 3.
    """
    extents = list(dimensions)
    if len(extents) == 4:
        extents = extents[1:]
    if len(extents) == 3 and extents[0] in _CHANNELS:
        return _large(extents[1], extents[2], extents[0], channels_first=True)
    if len(extents) == 3 and extents[2] in _CHANNELS:
        return _large(extents[0], extents[1], extents[2], channels_first=False)
    if len(extents) == 2:
        side = isqrt(extents[1])
        if extents[0] >= _LEAST_EXTENT:
            return _large(extents[0], extents[1], 1, channels_first=True)
        return _large(side, side, 1, channels_first=True) if side * side == extents[1] and side >= 8 else None
    return None


def placed(pixels: Array, frame: PixelFrame, dimensions: Sequence[int]) -> Array:
    """Lay pixels [H, W, C] out as an array of these dimensions, once for each picture of a batch."""
    laid = pixels.transpose(2, 0, 1) if frame.channels_first else pixels
    count = int(np.prod(dimensions)) // max(laid.size, 1)
    return np.tile(laid.reshape(-1), count).reshape(tuple(dimensions))


def pixels_of(values: Array, frame: PixelFrame) -> Array:
    """Return the first picture of an array as pixels [H, W, C]."""
    size = frame.height * frame.width * frame.channels
    first = values.reshape(-1)[:size]
    if frame.channels_first:
        return first.reshape(frame.channels, frame.height, frame.width).transpose(1, 2, 0)
    return first.reshape(frame.height, frame.width, frame.channels)


def _large(height: int, width: int, channels: int, channels_first: bool) -> PixelFrame | None:
    if min(height, width) < _LEAST_EXTENT:
        return None
    return PixelFrame(height, width, channels, channels_first)
