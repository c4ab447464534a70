"""The memory that a device has for buffers."""

from __future__ import annotations

import threading
import weakref
from collections import deque

import numpy as np

from nnhal.arrays import Bytes
from nnhal.errors import HalError, general_failure
from nnhal.exhaustion import lack_of
from nnhal.types import ErrorStatus
from nnhal_devices.backend import DeviceMemory
from nnhal_devices.host.memory.staging import aligned_base


class HostMemory:
    """The DeviceMemory of a device that has none of its own: the views of the host are all there is."""

    def __init__(self, alignment: int) -> None:
        """``alignment`` in bytes."""
        self._alignment = alignment

    def allocate(self, size: int) -> Bytes:
        """Allocate zeroed memory, which goes with its last view. Raises MemoryError."""
        base, start = aligned_base(size, self._alignment)
        return base[start : start + size]

    def fetch(self, view: Bytes) -> None:
        """Nothing to do: runs write into the view."""

    def store(self, view: Bytes) -> None:
        """Nothing to do: runs read the view."""


class DeviceMemoryBudget:
    """Allocates device memory up to a limit. Safe to use from several threads."""

    def __init__(self, limit: int, memory: DeviceMemory) -> None:
        """``limit`` in bytes."""
        self.limit = limit
        self.memory = memory
        self.changes = 0
        """Differs from what it was if a buffer has changed since, in more than its bytes; counted after the change."""
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
        if not size:
            return np.empty(0, np.uint8)
        with self._lock:
            if self._settled() + size > self.limit:
                general_failure(f"{size} bytes do not fit the device's memory: {self._used} of {self.limit} are in use")
            self._used += size
        try:
            view = self.memory.allocate(size)
            _require_bytes(view, size)
        except MemoryError as error:
            self._returned.append(size)
            message = f"{size} bytes for a buffer: {lack_of(error)}"
            raise HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, message) from error
        except BaseException:
            self._returned.append(size)
            raise
        weakref.finalize(view, self._returned.append, size).atexit = False
        # A slice of an array refers to what the array is a view of; a slice of a buffer's array keeps the buffer.
        return np.frombuffer(view.data, np.uint8)

    def _settled(self) -> int:
        """Subtract what finalizers have returned, and return what is in use."""
        while self._returned:
            self._used -= self._returned.popleft()
        return self._used


def _require_bytes(view: Bytes, size: int) -> None:
    """Check what a driver has allocated. Raises GENERAL_FAILURE."""
    if view.dtype != np.uint8 or view.shape != (size,) or not (view.flags.c_contiguous and view.flags.writeable):
        general_failure(
            f"the driver allocated {view.dtype} of shape {view.shape}, expected {size} writable bytes in one row"
        )
