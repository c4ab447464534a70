"""How often durations were in each range: bars over a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal_pages.charts.frame import LINE, Frame, across_axis, room_for, up_axis
from nnhal_pages.charts.measures import COUNT, NANOSECONDS, Tick
from nnhal_pages.svg import Drawing, Scale, element, label, title

_LEAST_RANGES = 8


def histogram(what: str, counts: Sequence[int], bounds: Sequence[int], width: int = 560, height: int = 200) -> Drawing:
    """Draw a bar for each range of durations that lies between the shortest and the longest.

    ``counts`` has, for each bound in nanoseconds, how many took at most so long and longer than the bound before, and
    last how many took longer.
    """
    ranges = used_ranges([counts], len(bounds))
    top, bottom = 1.75 * LINE, height - 1.5 * LINE
    up = Scale(0, max([1, *counts]), bottom, top)
    ticks = list(COUNT.ticks(up, 3))
    frame = Frame(room_for(tick.text for tick in ticks), width - 24, top, bottom)
    across = Scale(ranges.start, ranges.stop, frame.left, frame.right)
    edges = [
        Tick(row + 1, NANOSECONDS.words(bound))
        for row, bound in enumerate(bounds)
        if ranges.start <= row + 1 <= ranges.stop
    ]
    bars = [_bar(row, counts[row], bounds, across, up) for row in ranges if row < len(counts) and counts[row]]
    axes = up_axis(frame, up, ticks) + across_axis(frame, across, edges)
    told = f"{what}: how long {sum(counts):,} took"
    return Drawing(width, height, told, label(0, 12, what, "muted") + axes + "".join(bars))


def range_words(row: int, bounds: Sequence[int]) -> str:
    """Return the range of durations that a row counts, such as ``10 µs to 17.8 µs``."""
    if row >= len(bounds):
        return f"over {NANOSECONDS.words(bounds[-1])}"
    if row == 0:
        return f"up to {NANOSECONDS.words(bounds[0])}"
    return f"{NANOSECONDS.words(bounds[row - 1])} to {NANOSECONDS.words(bounds[row])}"


def used_ranges(counts: Sequence[Sequence[int]], last: int) -> range:
    """Return the ranges that hold something and one more on either side, some more if these are few.

    ``last`` is the number of the last range, which has no upper bound.
    """
    used = [row for each in counts for row, count in enumerate(each) if count]
    low, high = max(min(used, default=0) - 1, 0), min(max(used, default=last) + 2, last + 1)
    low = max(low - max(_LEAST_RANGES - (high - low), 0) // 2, 0)
    return range(low, min(max(high, low + _LEAST_RANGES), last + 1))


def _bar(row: int, count: int, bounds: Sequence[int], across: Scale, up: Scale) -> str:
    told = title(f"{range_words(row, bounds)}: {count:,}")
    left, right = across(row) + 1, across(row + 1) - 1
    box = {"x": left, "y": up(count), "width": right - left, "height": max(up(0) - up(count), 1.0)}
    return element("rect", told, class_="bar", **box)
