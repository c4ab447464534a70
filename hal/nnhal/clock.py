"""The clock of deadlines and spans: CLOCK_BOOTTIME, nanoseconds since boot, with time in suspend."""

from __future__ import annotations

from time import CLOCK_BOOTTIME, clock_gettime_ns


def now_ns() -> int:
    """Return the current time."""
    return clock_gettime_ns(CLOCK_BOOTTIME)
