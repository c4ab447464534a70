"""A window that slides over a part of an axis."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnhal.operations._window import Axis, Window
from nnhal_cascade.geometry.box import Box, Interval


class Slide(NamedTuple):
    """What the windows of some outputs see: elements of the input, and what is around them."""

    seen: Interval
    """From the first to the last element under a tap."""
    before: int
    """Elements before it that the windows cover: padding, and elements that lie between taps."""
    after: int
    """Elements after it, likewise."""


def slide(axis: Axis, length: int, wanted: Interval) -> Slide:
    """Return what the windows of an interval of the output see of an axis of ``length`` elements."""
    start = wanted.start * axis.stride - axis.before
    stop = (wanted.stop - 1) * axis.stride - axis.before + axis.reach
    if axis.dilation == 1 and axis.stride <= axis.size:
        seen = Interval(min(max(start, 0), length), min(max(stop, 0), length))
    else:
        seen = _under_taps(axis, length, wanted)
    before = min(max(seen.start - start, 0), stop - start)
    return Slide(seen, before, stop - start - before - seen.length)


def _under_taps(axis: Axis, length: int, wanted: Interval) -> Interval:
    """What a window with gaps, or with gaps to the next one, sees."""
    starts = np.arange(*wanted) * axis.stride - axis.before
    taps = np.add.outer(starts, np.arange(axis.size) * axis.dilation)
    taps = taps[(taps >= 0) & (taps < length)]
    return Interval(int(taps.min()), int(taps.max()) + 1) if taps.size else Interval(0, 0)


def under(window: Window, rows: int, columns: int, output: Box) -> tuple[Slide, Slide]:
    """Return what the windows of a box of the output see of an image."""
    return slide(window.height, rows, output.rows), slide(window.width, columns, output.columns)
