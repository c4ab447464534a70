"""Difference between the clock of the device's host and that of this host.

A call says when it left, came, was answered and returned. If both ways take equally long, the clocks differ by the mean
of the differences of both ways; the shorter both ways are, the smaller the error can be (as in NTP, RFC 5905).
"""

from __future__ import annotations

import threading

_AGE_NS = 10_000_000_000
"""Clocks drift apart by some ten microseconds a second, so that an old sample is worse than one of a longer way."""


class ClockOffset:
    """The offset by the best call of late. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offset = 0
        self._delay = 0
        self._at = -_AGE_NS

    def add(self, sent_ns: int, received_ns: int, answered_ns: int, returned_ns: int) -> None:
        """Take the instants of a call: the first and the last of this host's clock, the others of the device's."""
        delay = (returned_ns - sent_ns) - (answered_ns - received_ns)
        with self._lock:
            if delay <= self._delay or returned_ns - self._at >= _AGE_NS:
                self._offset = ((received_ns - sent_ns) + (answered_ns - returned_ns)) // 2
                self._delay, self._at = delay, returned_ns

    def here(self, instant_ns: int, earliest_ns: int, latest_ns: int) -> int:
        """Return an instant of the device's clock by that of this host, between two instants that it must lie between.

        All are in nanoseconds.
        """
        return min(max(instant_ns - self._offset, earliest_ns), latest_ns)
