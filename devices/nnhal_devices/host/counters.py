"""Bytes that a device process has copied since it started."""

from __future__ import annotations

import threading


class Counters:
    """Sums that several threads add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.staged_bytes = 0
        self.buffer_copied_bytes = 0

    def add_staged(self, count: int) -> None:
        """Count bytes that were copied because a pool could not be used in place."""
        with self._lock:
            self.staged_bytes += count

    def add_buffer_copy(self, count: int) -> None:
        """Count bytes that a client has copied into a device buffer or out of one."""
        with self._lock:
            self.buffer_copied_bytes += count
