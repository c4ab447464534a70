"""A tall and narrow graph in several columns beside each other, read like those of a newspaper."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from nnhal_pages.layout.shapes import GraphLayout, LineBundle, NodeShape, Point

_LEAST_HEIGHT = 560.0
"""Columns that would be less high are not made."""
_MOST_COLUMNS = 6
_MOST_LINES = 8
"""A graph is not broken where more lines than this would go on in the next column."""
_SLACK = 0.25
"""How far from its even place a break may be, as a part of a column's height."""
_GUTTER, _LINE = 36.0, 7.0
"""The room between two columns, and how much more each line between them needs."""


@dataclass(frozen=True, slots=True)
class _Rank:
    top: float
    bottom: float


def in_columns(layout: GraphLayout, shapes: Sequence[NodeShape], limit: float, returns: bool = False) -> GraphLayout:
    """Return the layout in as many columns as are no wider than ``limit`` together; it may be one, as before.

    It is broken between ranks where few lines go on, and these go round to the top of the next column. With
    ``returns`` the nodes that have to lie last lie below all columns, straight below those of the first rank.
    """
    count = min(int((limit + _GUTTER) / (layout.width + _GUTTER)), ceil(layout.height / _LEAST_HEIGHT), _MOST_COLUMNS)
    if count < 2:
        return layout
    ranks = _ranks(layout, shapes)
    crossings = _crossings(layout, ranks)
    breaks = _breaks(ranks, crossings, layout.height / count, count)
    returns = returns and any(shape.last for shape in shapes) and len(ranks) - 1 not in breaks
    return _Newspaper(layout, shapes, ranks, breaks, crossings, returns).made() if breaks else layout


def _ranks(layout: GraphLayout, shapes: Sequence[NodeShape]) -> list[_Rank]:
    bottoms: dict[float, float] = {}
    for (_, y), shape in zip(layout.places, shapes, strict=True):
        bottoms[y] = max(bottoms.get(y, y), y + shape.height)
    return [_Rank(top, bottoms[top]) for top in sorted(bottoms)]


def _crossings(layout: GraphLayout, ranks: Sequence[_Rank]) -> list[int]:
    """Count the lines between each rank and the next one. A segment lies within a rank or leads to the next one."""
    tops = [rank.top for rank in ranks]
    found = [0] * len(ranks)
    for bundle in layout.bundles:
        for start, end in bundle.segments:
            upper, lower = (bisect_right(tops, y + 1e-6) - 1 for y in (start[1], end[1]))
            if upper != lower:
                found[upper] += 1
    return found


def _breaks(ranks: Sequence[_Rank], crossings: Sequence[int], height: float, count: int) -> list[int]:
    """Return the ranks that begin a column, apart from the first one."""
    found: list[int] = []
    for number in range(1, count):
        wanted = number * height
        near = [
            rank
            for rank in range(1, len(ranks))
            if abs(ranks[rank].top - wanted) <= height * _SLACK and crossings[rank - 1] <= _MOST_LINES
        ]
        if near:
            best = min(near, key=lambda rank: (crossings[rank - 1], abs(ranks[rank].top - wanted)))
            if best not in found:
                found.append(best)
    return found


class _Newspaper:
    """A layout that is broken before some ranks."""

    def __init__(
        self,
        layout: GraphLayout,
        shapes: Sequence[NodeShape],
        ranks: Sequence[_Rank],
        breaks: Sequence[int],
        crossings: Sequence[int],
        returns: bool,
    ) -> None:
        self._layout, self._shapes = layout, shapes
        self._starts = [0.0, *(ranks[rank].top for rank in breaks)]
        self._ends = [*(ranks[rank - 1].bottom for rank in breaks), ranks[-1 - returns].bottom]
        room = [0.0, *(_LINE * crossings[rank - 1] for rank in breaks)]
        self._above = max(room) + _LINE
        self._tallest = max(end - top for top, end in zip(self._starts, self._ends, strict=True))
        self._used = [0] * (len(self._starts) + 1)
        if returns:
            self._starts.append(ranks[-1].top)  # the last nodes are in a part of their own, which is no column
        lows, highs = self._extents()
        self._shifts, self._lefts = [], []
        left = 0.0
        for more, low, high in zip(room, lows, highs, strict=False):
            self._shifts.append(left + more - low)
            self._lefts.append(left)
            left += more + high - low + _GUTTER
        self._width = left - _GUTTER
        self._tops = [self._above] * len(room)
        self._height = self._tallest + 2 * self._above
        if returns:
            (first, last) = (self._middle(rank) for rank in (ranks[0], ranks[-1]))
            self._shifts.append(max(first + self._shifts[0] - last, -lows[-1]))
            self._width = max(self._width, highs[-1] + self._shifts[-1])
            self._tops.append(self._height + _LINE * (crossings[-2] + 1))
            self._height = self._tops[-1] + ranks[-1].bottom - ranks[-1].top

    def _middle(self, rank: _Rank) -> float:
        nodes = zip(self._layout.places, self._shapes, strict=True)
        ends = [end for (x, y), shape in nodes if y == rank.top for end in (x, x + shape.width)]
        return (min(ends) + max(ends)) / 2

    def _extents(self) -> tuple[list[float], list[float]]:
        """Return where the parts begin and end, from left to right."""
        lows, highs = [self._layout.width] * len(self._starts), [0.0] * len(self._starts)
        reached = [
            *((y, x, x + shape.width) for (x, y), shape in zip(self._layout.places, self._shapes, strict=True)),
            *((y, x, x) for bundle in self._layout.bundles for segment in bundle.segments for x, y in segment),
        ]
        for y, low, high in reached:
            at = self._at(y)
            lows[at], highs[at] = min(lows[at], low), max(highs[at], high)
        return lows, highs

    def _at(self, y: float) -> int:
        return bisect_right(self._starts, y + 1e-6) - 1

    def _moved(self, point: Point) -> Point:
        at = self._at(point[1])
        return point[0] + self._shifts[at], point[1] - self._starts[at] + self._tops[at]

    def made(self) -> GraphLayout:
        return replace(
            self._layout,
            width=self._width,
            height=self._height,
            places=tuple(map(self._moved, self._layout.places)),
            bundles=tuple(map(self._bundle, self._layout.bundles)),
        )

    def _bundle(self, bundle: LineBundle) -> LineBundle:
        within = [each for each in bundle.segments if self._at(each[0][1]) == self._at(each[1][1])]
        jumps = (each for each in bundle.segments if self._at(each[0][1]) != self._at(each[1][1]))
        return replace(
            bundle,
            segments=tuple((self._moved(start), self._moved(end)) for start, end in within),
            ends=tuple(map(self._moved, bundle.ends)),
            jumps=tuple(self._jump(start, end) for start, end in jumps),
        )

    def _jump(self, start: Point, end: Point) -> tuple[Point, ...]:
        """Return the corners of a line from the end of a column to the beginning of the next part."""
        at = self._at(end[1])
        self._used[at] += 1
        aside = _LINE * self._used[at]
        (x, y), (end_x, end_y) = self._moved(start), self._moved(end)
        if at == len(self._lefts):
            level = self._tops[at] - _LINE - aside
            return (x, y), (x, level), (end_x, level), (end_x, end_y)
        below = self._above + self._ends[at - 1] - self._starts[at - 1] + aside
        gutter, above = self._lefts[at] - _GUTTER / 2 + aside, self._above - aside
        return (x, y), (x, below), (gutter, below), (gutter, above), (end_x, above), (end_x, end_y)
