"""Durations that an application gives, and times that it asks for."""

from __future__ import annotations

import time
from enum import IntEnum

from nnhal.types import NO_DEADLINE
from nnhal_client.ndk.result import NeuralNetworksError, ResultCode


class DurationCode(IntEnum):
    """Which time of an execution: the ANEURALNETWORKS_*DURATION_* codes."""

    ON_HARDWARE = 0
    IN_DRIVER = 1
    FENCED_ON_HARDWARE = 2
    FENCED_IN_DRIVER = 3


def require_duration(duration_ns: int) -> int:
    """A duration in nanoseconds, 0 for any. Raises BAD_DATA where it is below 0."""
    if duration_ns < 0:
        raise NeuralNetworksError(ResultCode.BAD_DATA, f"a duration of {duration_ns} ns, expected 0 or more")
    return duration_ns


def deadline_after(duration_ns: int) -> int:
    """The instant of CLOCK_BOOTTIME in so many nanoseconds; none for 0."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) + duration_ns if duration_ns else NO_DEADLINE
