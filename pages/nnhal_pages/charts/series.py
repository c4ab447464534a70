"""Values over time, as many of them as a line needs, and the time that a chart shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor
from typing import NamedTuple

from nnhal_pages.svg import Scale, rounded


@dataclass(frozen=True, slots=True)
class ChartSeries:
    """A value over time."""

    name: str
    points: Sequence[tuple[float, float | None]]
    """Seconds since the epoch, and the value then; None if it was not known. The oldest is first."""
    spread: Sequence[tuple[float, float, float]] = ()
    """Instants, with the lowest and the highest value around each, if the values are means; NaN if nothing is known."""

    @property
    def last(self) -> float | None:
        """The newest value, None if that was not known."""
        return self.points[-1][1] if self.points else None


def line_path(points: Sequence[tuple[float, float | None]], across: Scale, up: Scale, least: float = 2.0) -> str:
    """Return the path of a line, interrupted where values are not known, with a dot for a value that stands alone.

    Of values that are less than ``least`` apart in the picture, the lowest and the highest are drawn, so that peaks are
    seen. They are taken together by their instants alone, so that the line keeps its form while it moves.
    """
    step = least * (across.high - across.low) / (across.end - across.start)
    path = []
    for stretch in _stretches(points):
        kept = [(rounded(across(at)), rounded(up(value))) for at, value in _extremes(stretch, step)]
        x, y = kept[0]
        path.append(f"M{x} {y}" + ("".join(f"L{x} {y}" for x, y in kept[1:]) or "h.1"))
    return "".join(path)


def _stretches(points: Sequence[tuple[float, float | None]]) -> Iterator[list[tuple[float, float]]]:
    """Yield values that are known one after the other."""
    stretch: list[tuple[float, float]] = []
    for at, value in points:
        if value is not None:
            stretch.append((at, value))
        elif stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def _extremes(stretch: Sequence[tuple[float, float]], step: float) -> Iterator[tuple[float, float]]:
    """Yield the lowest and the highest value of each step in time, in their order."""
    group: list[tuple[float, float]] = []
    for point in stretch:
        if group and floor(point[0] / step) != floor(group[0][0] / step):
            yield from _ends(group)
            group = []
        group.append(point)
    yield from _ends(group)


def _ends(group: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    low, high = min(group, key=lambda each: each[1]), max(group, key=lambda each: each[1])
    return sorted({low, high})


def spread_path(series: ChartSeries, across: Scale, up: Scale, least: float = 1.0) -> str:
    """Return the outline of what lies between the lowest and the highest values, where that is seen."""
    path, stretch = [], list[tuple[float, float, float]]()
    for at, low, high in (*series.spread, (0.0, 0.0, 0.0)):
        if up(low) - up(high) >= least:
            stretch.append((across(at), up(low), up(high)))
            continue
        if stretch:
            there = "L".join(f"{rounded(x)} {rounded(y)}" for x, _, y in stretch)
            back = "L".join(f"{rounded(x)} {rounded(y)}" for x, y, _ in reversed(stretch))
            path.append(f"M{there}L{back}z")
        stretch = []
    return "".join(path)


class TimeWindow(NamedTuple):
    """The time that a chart shows."""

    end: float
    """Seconds since the epoch."""
    seconds: float = 900.0

    @property
    def begin(self) -> float:
        """Seconds since the epoch."""
        return self.end - self.seconds
