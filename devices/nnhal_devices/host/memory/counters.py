"""Counters of a device process since its start."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from nnhal.types import Copy


class Counters:
    """Sums that several threads add to."""

    def __init__(self, is_distant: bool = False) -> None:
        """``is_distant`` says that the device's own memory is on another host."""
        self._lock = threading.Lock()
        self._is_distant = is_distant
        self.staged_bytes = 0
        self.buffer_copied_bytes = 0
        self.wire_up_bytes = 0
        self.wire_down_bytes = 0
        self.compiled_models = 0
        self.restored_models = 0

    def add_preparation(self, is_restored: bool) -> None:
        """Count a model that was compiled, or restored from what a cache keeps of a compilation."""
        with self._lock:
            self.restored_models += is_restored
            self.compiled_models += not is_restored

    def add_staged(self, count: int) -> None:
        """Count bytes that were copied because a pool could not be used in place."""
        with self._lock:
            self.staged_bytes += count

    def add_copies(self, copies: Iterable[Copy]) -> None:
        """Count what a driver has copied over a network for a run."""
        with self._lock:
            for copy in copies:
                if copy.is_wire:
                    self._add_wire(copy.bytes, copy.is_output)

    def add_buffer_copy(self, count: int, is_output: bool) -> None:
        """Count bytes that a client has copied into a device buffer, or out of one if ``is_output``."""
        with self._lock:
            self.buffer_copied_bytes += count
            if self._is_distant:
                self._add_wire(count, is_output)

    def _add_wire(self, count: int, is_output: bool) -> None:
        if is_output:
            self.wire_down_bytes += count
        else:
            self.wire_up_bytes += count
