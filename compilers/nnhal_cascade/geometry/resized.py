"""The dependency of a resized axis on its input: by linear interpolation, or by nearest neighbour in any ratio."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from nnhal_cascade.geometry.access import AffineRow
from nnhal_cascade.geometry.accesses import EMPTY
from nnhal_cascade.geometry.box import Interval


@dataclass(frozen=True, slots=True)
class Resized:
    """Each output is taken from a place in the input, as RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR compute it.

    Both elements beside a place count as needed, even if the place is exactly one of them.
    """

    length: int
    outputs: int
    nearest: bool = False
    """Whether an output is one element, and not a mean of two."""
    align_corners: bool = False
    half_pixel_centers: bool = False

    def needs(self, wanted: Interval) -> Interval:
        """Return the elements from the first place to the last."""
        start, stop = max(0, wanted.start), min(self.outputs, wanted.stop)
        if start >= stop:
            return EMPTY
        first, last = _taps(self)
        return Interval(first[start], last[stop - 1] + 1)

    def affine(self) -> AffineRow:
        """Return the ratio, with a constant and an offset that suffice for each stripe."""
        scale = _scale(self)
        first, last = _taps(self)
        starts = [n * scale.numerator // scale.denominator for n in range(self.outputs)]
        offset = min(tap - start for tap, start in zip(first, starts, strict=True))
        beyond = max(tap + 1 - (n + 1) * scale for n, tap in enumerate(last))
        return AffineRow(float(scale), float(beyond - offset), offset)


def _scale(axis: Resized) -> Fraction:
    if axis.align_corners and axis.outputs > 1:
        return Fraction(axis.length - 1, axis.outputs - 1)
    return Fraction(axis.length, axis.outputs)


@lru_cache(maxsize=1024)
def _taps(axis: Resized) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the first and the last element that each output is taken from.

    The operations are defined with float32, so rounding decides on which side of an element a place lies.
    """
    half = np.float32(0.5 if axis.half_pixel_centers else 0)
    scale = _scale(axis)
    factor = np.float32(scale.numerator) / np.float32(scale.denominator)
    places = (np.arange(axis.outputs, dtype=np.float32) + half) * factor
    if axis.nearest:
        rounded = np.floor(places + np.float32(0.5 if axis.align_corners else 0))
        first = last = np.minimum(rounded.astype(np.int64), axis.length - 1)
    else:
        first = np.floor(np.clip(places - half, 0, axis.length - 1)).astype(np.int64)
        last = np.minimum(first + 1, axis.length - 1)
    return tuple(first.tolist()), tuple(last.tolist())
