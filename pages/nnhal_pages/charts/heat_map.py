"""Durations over time: a column for each stretch of time, a row for each range of durations."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor

from nnhal_pages.charts.frame import LINE, Frame, places, time_axis, time_frame, up_axis, wide
from nnhal_pages.charts.marks import ChartMark, marked
from nnhal_pages.charts.measures import NANOSECONDS, Tick
from nnhal_pages.charts.series import TimeWindow
from nnhal_pages.svg import Drawing, Scale, element, label, rounded, title

_LEAST_RANGES = 8


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


_SHADES = 5
_COLUMNS = 60
_POWERS = frozenset(10**power for power in range(3, 13))
"""Bounds that are labelled."""


def heat_map(
    what: str,
    samples: Sequence[tuple[float, Sequence[int]]],
    bounds: Sequence[int],
    window: TimeWindow,
    width: int = 560,
    height: int = 260,
    marks: Sequence[ChartMark] = (),
) -> Drawing:
    """Draw counts of durations. The stronger a cell's colour, the more of its time were in its range.

    Args:
        what: What took so long.
        samples: Instants as of ``window``, and counts: for each bound how many took at most so long and longer than the
            bound before, and last how many took longer.
        bounds: Nanoseconds, ascending.
        window: The time that is shown.
        width: Of the drawing.
        height: Of the drawing.
        marks: What happened.
    """
    step = window.seconds / _COLUMNS
    columns = _columns(samples, window, step, len(bounds) + 1)
    total = sum(map(sum, columns.values()))
    if not total:
        nothing = label(width / 2, height / 2, "nothing in this time", "muted middle")
        return Drawing(width, height, f"{what}: nothing", label(0, 12, what, "muted") + nothing)
    rows = used_ranges(list(columns.values()), len(bounds))
    thresholds = _thresholds(max((count for counts in columns.values() for count in counts), default=0))
    top, bottom = 3 * LINE + 8.0, height - 1.5 * LINE
    up = Scale(rows.start, rows.stop, bottom, top)
    ticks = [
        Tick(row + 1, f"{bound / 1e6:,.10g}")
        for row, bound in enumerate(bounds)
        if bound in _POWERS and rows.start <= row + 1 <= rows.stop
    ]
    frame = time_frame(width, top, bottom)
    across = Scale(window.begin, window.end, frame.left, frame.right)
    cells: list[list[str]] = [[] for _ in thresholds]
    readings = []
    for begin, counts in columns.items():
        left, right = across(begin), min(across(begin + step), frame.right)
        readings.append(_reading(counts, bounds, left, right, frame))
        for row in rows:
            if counts[row]:
                shade = max(number for number, least in enumerate(thresholds) if counts[row] >= least)
                cells[shade].append(_cell(left, right, up(row + 1), up(row)))
    parts = [
        label(0, 12, what, "muted"),
        _key(thresholds, width - 8.0),
        label(0, top - 8, "ms", "muted"),
        up_axis(frame, up, ticks),
        time_axis(frame, across, window),
        *(element("path", class_=f"heat-{shade + 1}", d="".join(each)) for shade, each in enumerate(cells) if each),
        *readings,
        marked(marks, frame, across, window),
        element("g", element("path", d=""), data_chart="times", **places(frame, window)),
    ]
    summary = f"{what}: how long {total:,} took, over time"
    return Drawing(width, height, summary, "".join(parts), interactive=bool(marks))


def _columns(
    samples: Sequence[tuple[float, Sequence[int]]], window: TimeWindow, step: float, ranges: int
) -> dict[float, list[int]]:
    """Add up counts by columns, which begin at multiples of ``step`` so that they keep what they hold."""
    columns: dict[float, list[int]] = {}
    for at, counts in samples:
        begin = floor(at / step) * step
        if window.begin <= begin and at <= window.end:
            held = columns.setdefault(begin, [0] * ranges)
            for row, count in enumerate(counts[:ranges]):
                held[row] += count
    return columns


def _thresholds(most: int) -> list[int]:
    """The least count of each shade: each shade has as much of the counts' magnitudes."""
    found = {max(1, ceil(most ** (shade / _SHADES))) for shade in range(_SHADES)}
    return sorted(each for each in found if each <= most)


def _key(thresholds: Sequence[int], right: float) -> str:
    """Return what the shades mean, above the picture on the right."""
    parts: list[str] = []
    x = right
    for shade, least in reversed(list(enumerate(thresholds))):
        following = thresholds[shade + 1] if shade + 1 < len(thresholds) else 0
        text = f"{least:,}" if following else f"from {least:,}"
        if following > least + 1:
            text += f"-{following - 1:,}"
        x -= wide(text)
        parts.append(label(x, LINE + 12, text, "muted"))
        x -= 18
        parts.append(element("rect", class_=f"heat-key heat-{shade + 1}", x=x, y=LINE + 2, width=12, height=12))
        x -= 12
    return "".join(parts)


def _cell(left: float, right: float, top: float, bottom: float) -> str:
    return f"M{rounded(left)} {rounded(top)}H{rounded(right)}V{rounded(bottom)}H{rounded(left)}z"


def _reading(counts: Sequence[int], bounds: Sequence[int], left: float, right: float, frame: Frame) -> str:
    """An invisible column whose title has its numbers."""
    total = sum(counts)
    if not total:
        return ""
    half = next(row for row in range(len(counts)) if 2 * sum(counts[: row + 1]) >= total)
    slowest = max(row for row, count in enumerate(counts) if count)
    summary = (
        f"{total:,} in this time: the median {range_words(half, bounds)}, the slowest {range_words(slowest, bounds)}"
    )
    box = {"x": left, "y": frame.top, "width": right - left, "height": frame.bottom - frame.top}
    return element("rect", title(summary), class_="reach", **box)
