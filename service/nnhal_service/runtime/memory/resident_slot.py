"""Values that stay on the device that writes and reads them, in its own buffer."""

from __future__ import annotations

from collections.abc import Callable

from nnhal.types import Memory
from nnhal.types.layout import Dimensions
from nnhal_service.run_memory import run_ashmem
from nnhal_service.runtime.memory.domains import Storage
from nnhal_service.runtime.memory.slots import Element, MemoryRange, Slot


class ResidentSlot(Slot):
    """A device's buffer for one value, allocated when it is first used, and again when the device is back.

    If another device takes a step that writes or reads the value, it passes through host memory: it is copied when the
    other side needs it. What a device that has died held is lost: reading it is an error.
    """

    def __init__(self, element: Element, dimensions: Dimensions, allocate: Callable[[], Storage]) -> None:
        """``dimensions`` are all known. ``allocate`` raises HalError, or TransportError if the device is gone."""
        super().__init__(element, dimensions)
        self._allocate = allocate
        self._size = element.size(dimensions)
        self._storage: Storage | None = None
        self._on_host: Memory | None = None
        """The value, if it is on the host."""
        self._is_current = True
        """True if the storage has the value, or will have it."""
        self._to_fill: Memory | None = None
        """Host memory that another device is writing."""

    def forget(self) -> None:
        super().forget()
        self._on_host, self._is_current = None, True

    def to_read(self, own: bool) -> MemoryRange:
        if not own:
            if self._on_host is None:
                self._on_host = self._living().to_host(self._size)
            return MemoryRange(self._on_host, 0, self._size)
        storage = self._living()
        if self._on_host is not None and not self._is_current:
            storage.copy_from(self._on_host, self._size, self.stated)
            self._is_current = True
        return self._whole(storage)

    def to_write(self, own: bool) -> MemoryRange:
        if own:
            return self._whole(self._living())
        self._to_fill = run_ashmem(self._size)
        return MemoryRange(self._to_fill, 0, self._size)

    def written(self, own: bool, dimensions: Dimensions) -> None:
        super().written(own, dimensions)
        self._on_host, self._to_fill = None if own else self._to_fill, None
        self._is_current = own

    def release(self) -> None:
        storage, self._storage = self._storage, None
        self._on_host = self._to_fill = None
        if storage is not None:
            storage.release()

    def _living(self) -> Storage:
        if self._storage is None or self._storage.gone:
            self._storage = self._allocate()
        return self._storage

    def _whole(self, storage: Storage) -> MemoryRange:
        pool = storage.pool
        return MemoryRange(pool, 0, 0 if isinstance(pool, int) else self._size)
