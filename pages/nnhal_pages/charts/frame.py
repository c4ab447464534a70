"""The frame of a chart: where it is drawn, its axes, and words that do not overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil, floor

from nnhal_pages.charts.measures import Tick
from nnhal_pages.charts.series import TimeWindow
from nnhal_pages.svg import Scale, element, label, rounded, width_of
from nnhal_pages.text import shortened

LINE = 16
"""The height of a line of text."""
_LEFT, _BESIDE = 56.0, 0.3
"""The room left of a chart of a time, and the share of its width right of it."""
_GAP = 8
_CLOCK = (("%H:%M:%S", "00:00:00"), ("%H:%M", "00:00"))
"""How a time of day is written, with seconds and without, and how wide that is."""
_CLOCK_STEPS = (10, 20, 30, 60, 120, 180, 300, 600, 900, 1800, 3600, 7200, 14400, 21600)
"""The seconds between ticks."""
_LEAST_NAME = 10
"""Characters to which a name is shortened at most; a shorter one is left out."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The rectangle of a chart in which values are drawn."""

    left: float
    right: float
    top: float
    bottom: float


def wide(text: str) -> float:
    """Return how wide a line of text may be, also in a font that is wider than most."""
    return width_of(text) * 1.1


def room_for(texts: Iterable[str], most: float = 200.0) -> float:
    """Return how much space beside an axis its words take."""
    return min(most, max(map(wide, texts), default=0.0) + 2 * _GAP)


def across_axis(frame: Frame, scale: Scale, ticks: Iterable[Tick], has_grid: bool = False) -> str:
    """Draw an axis below the frame. Of words that would overlap, the later are left out."""
    parts = [element("line", class_="axis", x1=frame.left, x2=frame.right, y1=frame.bottom, y2=frame.bottom)]
    free = 0.0
    for tick in ticks:
        x, half = scale(tick.value), wide(tick.text) / 2
        end = frame.top if has_grid else frame.bottom + 4
        parts.append(element("line", class_="grid" if has_grid else "axis", x1=x, x2=x, y1=frame.bottom, y2=end))
        place, middle = ("middle", x) if x + half <= frame.right + 2 * _GAP else ("end", frame.right + _GAP)
        start = middle - (half if place == "middle" else 2 * half)
        if start >= free:
            parts.append(label(middle, frame.bottom + LINE + 2, tick.text, f"muted {place}"))
            free = start + 2 * half + _GAP
    return "".join(parts)


def time_frame(width: float, top: float, bottom: float) -> Frame:
    """Return the frame of a chart of a time. All of one width have the same edges, so that instants are in line."""
    return Frame(_LEFT, width * (1 - _BESIDE), top, bottom)


def places(frame: Frame, window: TimeWindow, high: float = 0.0) -> dict[str, str]:
    """Return the attributes of a chart of a time that a script needs: where its frame is, the time, and the value that
    its upper edge stands for, in the unit of the axis.
    """
    box = (frame.left, frame.right, frame.top, frame.bottom)
    time = f"{window.begin:.10g} {window.end:.10g}"
    return {"data_box": " ".join(map(rounded, box)), "data_time": time, "data_high": f"{high:.8g}"}


def time_axis(frame: Frame, scale: Scale, window: TimeWindow) -> str:
    """Draw an axis of times of day below the frame, and the zone of these right of it.

    A script finds the instants and the zone by their data, and may write another zone's times.
    """
    parts = [element("line", class_="axis", x1=frame.left, x2=frame.right, y1=frame.bottom, y2=frame.bottom)]
    for tick in _clock_ticks(window, frame.right - frame.left):
        x, half = scale(tick.value), wide(tick.text) / 2
        parts.append(element("line", class_="axis", x1=x, x2=x, y1=frame.bottom, y2=frame.bottom + 4))
        if frame.left <= x - half + _GAP and x + half <= frame.right:
            instant = int(tick.value)
            parts.append(label(x, frame.bottom + LINE + 2, tick.text, "muted middle", data_at=instant))
    return "".join([*parts, label(frame.right + 6, frame.bottom + LINE + 2, "UTC", "muted", data_zone="")])


def _clock_ticks(window: TimeWindow, width: float) -> list[Tick]:
    """Return ticks at round times of day: they stay at their instants while time goes on."""
    fitting = (each for each in _CLOCK_STEPS if each * width / window.seconds >= wide(_CLOCK[each >= 60][1]) + _GAP)
    step = next(fitting, _CLOCK_STEPS[-1])
    instants = [step * number for number in range(ceil(window.begin / step), floor(window.end / step) + 1)]
    return [Tick(at, datetime.fromtimestamp(at, UTC).strftime(_CLOCK[step >= 60][0])) for at in instants]


def up_axis(frame: Frame, scale: Scale, ticks: Iterable[Tick]) -> str:
    """Draw lines across the frame, with words left of it. Of words that would overlap, the upper are left out."""
    parts = []
    free = frame.bottom + LINE
    for tick in ticks:
        y = scale(tick.value)
        parts.append(element("line", class_="grid", x1=frame.left, x2=frame.right, y1=y, y2=y))
        if y + LINE * 0.8 <= free:
            parts.append(label(frame.left - _GAP, y + 4, tick.text, "muted end"))
            free = y
    return "".join(parts)


def fitted(text: str, width: float) -> str:
    """Return a text shortened to a width; nothing if too little of it would be left."""
    short = shortened(text, int(width / wide("m")))
    return short if short == text or len(short) >= _LEAST_NAME else ""


def apart(positions: Sequence[float], least: float, low: float, high: float) -> list[float]:
    """Move positions so that neighbours are ``least`` apart, within bounds if there is room, in the same order."""
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    moved = list(positions)
    now = low - least
    for index in order:
        now = moved[index] = max(positions[index], now + least)
    now = high + least
    for index in reversed(order):
        now = moved[index] = min(moved[index], now - least)
    return moved
