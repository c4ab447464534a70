"""The clock of deadlines and spans: CLOCK_BOOTTIME, nanoseconds since boot, with time in suspend."""

from __future__ import annotations

from time import CLOCK_BOOTTIME, clock_gettime_ns, monotonic_ns


def now_ns() -> int:
    return clock_gettime_ns(CLOCK_BOOTTIME)


def boottime_shift() -> int:
    """Return what turns an instant of CLOCK_MONOTONIC into one of CLOCK_BOOTTIME when added, in nanoseconds.

    It grows while the host is suspended.
    """
    return now_ns() - monotonic_ns()
