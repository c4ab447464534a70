"""The clock of deadlines: CLOCK_BOOTTIME, nanoseconds since boot, with time in suspend."""

from __future__ import annotations

import time

from nnhal.errors import HalError
from nnhal.types import NO_DEADLINE, ErrorStatus


def now_ns() -> int:
    """The current time."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def require_ahead(deadline_ns: int) -> None:
    """Raise MISSED_DEADLINE_PERSISTENT if a deadline has passed already: the same call can only miss it again."""
    if deadline_ns != NO_DEADLINE and now_ns() > deadline_ns:
        raise HalError(ErrorStatus.MISSED_DEADLINE_PERSISTENT, "the deadline had passed before the work began")
