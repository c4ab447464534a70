"""The memory that a device has for buffers."""

from __future__ import annotations

import threading
import weakref
from collections import deque

from nnhal.arrays import Bytes
from nnhal.errors import general_failure
from nnhal_devices.host.staging import aligned_base


class DeviceMemoryBudget:
    """Allocates device memory up to a limit. Safe to use from several threads."""

    def __init__(self, limit: int, alignment: int) -> None:
        """``limit`` and ``alignment`` in bytes."""
        self.limit = limit
        self._alignment = alignment
        self._lock = threading.Lock()
        self._used = 0
        # Memory is returned by finalizers, which run at any moment, even in a thread that holds the lock.
        self._returned: deque[int] = deque()

    @property
    def used(self) -> int:
        """Bytes in use."""
        with self._lock:
            return self._settled()

    def allocate(self, size: int) -> Bytes:
        """Allocate zeroed memory, which is returned with its last view. Raises GENERAL_FAILURE if it does not fit."""
        with self._lock:
            if self._settled() + size > self.limit:
                general_failure(f"{size} bytes do not fit the device's memory: {self._used} of {self.limit} are in use")
            self._used += size
        try:
            base, start = aligned_base(size, self._alignment)
        except MemoryError:
            self._returned.append(size)
            general_failure(f"{size} bytes of memory cannot be allocated")
        weakref.finalize(base, self._returned.append, size).atexit = False
        return base[start : start + size]

    def _settled(self) -> int:
        """Subtract what finalizers have returned, and return what is in use."""
        while self._returned:
            self._used -= self._returned.popleft()
        return self._used
