"""The time that a chart shows, such as the last 15 minutes."""

from __future__ import annotations

from typing import NamedTuple

from nnhal_pages.charts.measures import Tick

_MINUTES = (1, 2, 5, 10, 15, 30, 60)


class TimeWindow(NamedTuple):
    """The time that a chart shows."""

    end: float
    """Seconds since the instant that the points count from."""
    seconds: float = 900.0


def ago(window: TimeWindow) -> list[Tick]:
    """Return ticks that stay where they are while time goes on."""
    minutes = window.seconds / 60
    step = next((each for each in _MINUTES if minutes / each <= 5), 60)
    passed = [step * number for number in range(int(minutes / step), 0, -1)]
    return [*(Tick(window.end - 60 * each, f"{each} min ago") for each in passed), Tick(window.end, "now")]
