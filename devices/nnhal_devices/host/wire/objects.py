"""Objects that a session of the wire owns on the device: prepared models, executions, buffers."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import deque
from typing import Protocol, TypeVar

from nnhal.arrays import Bytes
from nnhal.errors import invalid_argument
from nnhal.memory import create_ashmem, open_pool
from nnhal.memory.pool import MappedPool
from nnhal.remote.burst import RemoteBurst
from nnhal.remote.prepared_model import RemotePreparedModel
from nnhal.shares import Tenant
from nnhal.types import Ashmem
from nnhal_devices.host.wire.limits import SessionBudget

T = TypeVar("T")


class FarObject(Protocol):
    """An object of a session, which counts against the session's bytes."""

    @property
    def held_bytes(self) -> int:
        """The bytes that it counts for."""
        ...

    def release(self) -> None:
        """Release it on the device."""
        ...


class FarMemory:
    """Shared memory of this host that stands for memory of a client on another."""

    def __init__(self, size: int, name: str) -> None:
        """Raises ValueError unless ``size`` is above 0, OSError if there is none."""
        self.pool: Ashmem = create_ashmem(size, name)
        opened = open_pool(self.pool, writable=True)
        assert isinstance(opened, MappedPool)
        self.view: Bytes = opened.view(0, size)

    @property
    def held_bytes(self) -> int:
        """Its size."""
        return self.pool.size

    def release(self) -> None:
        """Do nothing: the memory ends with its last user."""


class FarPreparedModel:
    """A prepared model, with bursts for as many runs as there have been at a time."""

    def __init__(self, remote: RemotePreparedModel, pool_bytes: int) -> None:
        """``pool_bytes`` are those of its constants."""
        self.remote = remote
        self._pool_bytes = pool_bytes
        self._bursts: deque[RemoteBurst] = deque()
        self._is_released = False

    @property
    def held_bytes(self) -> int:
        """The bytes of its constants."""
        return self._pool_bytes

    def borrow_burst(self) -> RemoteBurst:
        """Return a burst that nobody uses. Raises NnhalError."""
        try:
            return self._bursts.pop()
        except IndexError:
            return self.remote.configure_execution_burst()

    def give_back(self, burst: RemoteBurst) -> None:
        """Let others use a burst."""
        self._bursts.append(burst)
        if self._is_released:
            self._close_bursts()

    def release(self) -> None:
        """Release it and its bursts."""
        self._is_released = True
        self._close_bursts()
        self.remote.release()

    def _close_bursts(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._bursts.pop().close()


class FarObjects:
    """The objects of one session by number. Safe to use from several threads."""

    def __init__(self, budget: SessionBudget) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._objects: dict[int, tuple[FarObject, Tenant]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def add(self, item: FarObject, client: Tenant) -> int:
        """Own an object whose bytes a client has taken from the budget, and return its number."""
        with self._lock:
            number = next(self._numbers)
            self._objects[number] = item, client
            return number

    def get(self, number: int, kind: type[T], name: str) -> T:
        """Return an object of a kind; messages call it ``name``. Raises INVALID_ARGUMENT if there is no such object."""
        item, _ = self._objects.get(number, (None, None))
        if not isinstance(item, kind):
            invalid_argument(f"{name} {number} does not exist in this session, or was released")
        return item

    def drop(self, number: int) -> None:
        """Release an object. Unknown numbers do no harm."""
        with self._lock:
            item, client = self._objects.pop(number, (None, None))
        if item is not None and client is not None:
            self._budget.give(client, item.held_bytes)
            item.release()
