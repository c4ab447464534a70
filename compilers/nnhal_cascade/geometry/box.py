"""Boxes: parts of a tensor of [rows, columns, channels]. The batch is 1 in all of the cascader."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple


class Axis(IntEnum):
    """The axes of a tensor, slowest first."""

    ROWS = 0
    COLUMNS = 1
    CHANNELS = 2


class Interval(NamedTuple):
    """The elements from ``start`` up to, and without, ``stop``. It is empty if ``stop <= start``."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        """The number of elements."""
        start, stop = self
        return stop - start if stop > start else 0


class Shape(NamedTuple):
    """The extents of a tensor or of a buffer, in elements."""

    rows: int
    columns: int
    channels: int

    @property
    def elements(self) -> int:
        """The number of elements."""
        return self.rows * self.columns * self.channels


class Box(NamedTuple):
    """An interval of each axis."""

    rows: Interval
    columns: Interval
    channels: Interval

    @property
    def shape(self) -> Shape:
        """The extents."""
        rows, columns, channels = self
        return Shape(rows.length, columns.length, channels.length)

    def along(self, axis: Axis, interval: Interval) -> Box:
        """Return this box with another interval of one axis."""
        parts = list(self)
        parts[axis] = interval
        return Box(*parts)


def whole(shape: Shape) -> Box:
    """Return the box of a whole tensor."""
    return Box(*(Interval(0, extent) for extent in shape))


def hull(intervals: Iterable[Interval]) -> Interval:
    """Return the least interval that contains others; empty ones have no place, and do not count."""
    found = [each for each in intervals if each.length]
    if not found:
        return Interval(0, 0)
    return Interval(min(each.start for each in found), max(each.stop for each in found))


def cut_evenly(interval: Interval, most: int) -> list[Interval]:
    """Cut an interval into as few pieces as ``most`` elements allow, which differ by one element at most."""
    count = -(-interval.length // most)
    ends = [interval.start + interval.length * number // count for number in range(count + 1)]
    return [Interval(start, stop) for start, stop in pairwise(ends)]


def cut(interval: Interval, extent: int) -> list[Interval]:
    """Cut an interval into pieces of ``extent`` elements; the last one may be smaller."""
    return [
        Interval(start, min(start + extent, interval.stop)) for start in range(interval.start, interval.stop, extent)
    ]
