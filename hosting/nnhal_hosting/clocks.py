"""How the clocks of a host differ."""

from __future__ import annotations

import time


def boottime_shift() -> int:
    """Return what turns an instant of CLOCK_MONOTONIC into one of CLOCK_BOOTTIME when added, in nanoseconds.

    It grows while the host is suspended.
    """
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
