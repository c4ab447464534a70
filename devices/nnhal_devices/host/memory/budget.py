"""The memory that a device has for buffers."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Bytes
from nnhal.errors import HalError, general_failure
from nnhal.exhaustion import lack_of
from nnhal.shares import Shares
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
    """Allocates device memory up to a limit, which clients share. Safe to use from several threads."""

    def __init__(self, limit: int, memory: DeviceMemory) -> None:
        """``limit`` in bytes."""
        self.limit = limit
        self.memory = memory
        self._shares = Shares(limit, "bytes", "NNHAL_DEVICE_BUFFER_BYTES", leaves=8)
        self.changes = 0
        """Differs from what it was if a buffer has changed since, in more than its bytes; counted after the change."""

    @property
    def used(self) -> int:
        """Bytes in use."""
        return self._shares.held

    def allocate(self, size: int) -> Bytes:
        """Allocate zeroed memory, which is returned with its last view. Raises GENERAL_FAILURE if it does not fit."""
        if not size:
            return np.empty(0, np.uint8)
        try:
            client = self._shares.take(size, "a buffer")
        except HalError as error:
            general_failure(f"{size} bytes do not fit the device's memory: {error.message}")
        try:
            view = self.memory.allocate(size)
            _require_bytes(view, size)
        except MemoryError as error:
            self._shares.give_back(client, size)
            message = f"{size} bytes for a buffer: {lack_of(error)}"
            raise HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, message) from error
        except BaseException:
            self._shares.give_back(client, size)
            raise
        self._shares.give_with(view, client, size)
        # A slice of an array refers to what the array is a view of; a slice of a buffer's array keeps the buffer.
        return np.frombuffer(view.data, np.uint8)


def _require_bytes(view: Bytes, size: int) -> None:
    """Check what a driver has allocated. Raises GENERAL_FAILURE."""
    if view.dtype != np.uint8 or view.shape != (size,) or not (view.flags.c_contiguous and view.flags.writeable):
        general_failure(
            f"the driver allocated {view.dtype} of shape {view.shape}, expected {size} writable bytes in one row"
        )
