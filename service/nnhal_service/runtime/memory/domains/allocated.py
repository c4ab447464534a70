"""Memory that was allocated for roles, with its state, and the memory that a session keeps."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from nnhal.errors import HalError, general_failure, invalid_argument
from nnhal.memory import validate_bytes
from nnhal.types import ErrorStatus, Memory, RequestMemoryPool
from nnhal.types.layout import Dimensions, combine, describe
from nnhal_service.runtime.memory.domains.description import MemoryDescription
from nnhal_service.runtime.memory.domains.storage import HostStorage, Storage

_FREED = "the memory has been freed"
_EMPTY = "the memory is uninitialised: nothing was copied or written to it yet, or that failed"


class BoundMemory(Protocol):
    """Memory that a binding names: a device's own buffer, or shared host memory. Safe to use from several threads."""

    @property
    def device(self) -> str:
        """The device whose buffer it is; empty for the host's memory."""
        ...

    @property
    def pool(self) -> RequestMemoryPool:
        """The buffer's token or the host's memory, for a request of that device.

        Raises DeadObjectError if the buffer is gone and was not allocated again since: a new process may use its token
        for other memory.
        """
        ...

    @property
    def dimensions(self) -> Dimensions:
        """The dimensions of its values; 0 for an unknown extent."""
        ...

    @property
    def is_lent(self) -> bool:
        """True if its device is asked what it holds. The device makes room for what is written, whatever its size."""
        ...

    def require_alive(self) -> None:
        """Raise DeadObjectError if the device's process is gone, and the memory with it.

        If the device came back, the memory is allocated again instead, and is uninitialised.
        """
        ...

    def to_host(self) -> tuple[Memory, Dimensions]:
        """Its values in host memory, for a run on another device: the memory itself, or a copy of the buffer; and their
        dimensions. Raises HalError, or TransportError if the device is gone.
        """
        ...

    def from_host(self, memory: Memory, dimensions: Dimensions) -> None:
        """Take values that another device wrote. Raises as ``to_host`` does."""
        ...

    def lend(self) -> None:
        """Have runs write it that nobody tells of here: from now on its device is asked what it holds."""
        ...

    def written(self, dimensions: Dimensions, succeeded: bool) -> None:
        """Note that a run has written it: the dimensions of its values, or that it failed and holds none."""
        ...

    def require_readable(self, operand_dimensions: Dimensions) -> None:
        """Raise HalError if it cannot be an input: GENERAL_FAILURE if it is uninitialised, INVALID_ARGUMENT if its
        values have other dimensions. Raises as ``require_alive`` does, too.
        """
        ...


class AllocatedMemory:
    """A BoundMemory. Safe to use from several threads: a race leaves only the data undefined.

    It is uninitialised until values are copied to it or a run writes it, and again when that fails. Its dimensions are
    then those of the values; the next values may have any dimensions that its description allows. A buffer that is gone
    with its device is allocated again, once, at the first use after the device came back; it is then uninitialised.

    Once it is ``lent``, runs write it that nobody tells of here: only its device knows what it holds, and is asked.
    """

    def __init__(self, description: MemoryDescription, storage: Storage) -> None:
        self.description = description
        self._storage = storage
        self._lock = threading.Lock()
        self._renewing = threading.Lock()
        self._dimensions = description.dimensions
        self._filled: Storage | None = None  # the storage that the values were written to, if there are any
        self.is_lent = False
        """True if its device is asked what it holds."""
        self._closed = False

    @property
    def device(self) -> str:
        return self._storage.device

    @property
    def pool(self) -> RequestMemoryPool:
        return self._storage.pool

    @property
    def host(self) -> Memory | None:
        """The host memory behind the allocation; None if it is a device's buffer."""
        return self._storage.memory if isinstance(self._storage, HostStorage) else None

    @property
    def dimensions(self) -> Dimensions:
        return self._dimensions

    @property
    def is_initialised(self) -> bool:
        """Return whether it holds values, or may hold some if it is lent."""
        with self._lock:
            return self._filled is not None and self._filled is self._storage

    @property
    def is_lost(self) -> bool:
        """Return whether its device has died, and its values with it."""
        return self._storage.gone

    @property
    def closed(self) -> bool:
        return self._closed

    def copy_from(self, source: Memory, values_dimensions: Dimensions = ()) -> None:
        """Copy all values from a client's memory of the same size; without ``values_dimensions`` it has the memory's.

        Raises INVALID_ARGUMENT if sizes or dimensions differ or some are unknown, and HalError or TransportError if
        copying fails. After any failure the memory is uninitialised.
        """
        with self._filling(values_dimensions) as dimensions:
            size = self.description.size_of(dimensions)
            _require_size(validate_bytes(source, "the source"), size, "source", dimensions)
            self._fill(source, size, dimensions)

    def become_empty(self, dimensions: Dimensions) -> None:
        """Hold a value of these dimensions, of which one is 0. Raises as ``copy_from`` does."""
        storage = self._living()
        storage.empty(dimensions)
        self._become(self.description.dimensions, storage)

    def copy_to(self, destination: Memory) -> None:
        """Copy all values to a client's memory of the same size. The state does not change.

        Raises as ``copy_from`` does, and INVALID_ARGUMENT if the memory is uninitialised.
        """
        storage, dimensions = self._require_held()
        size = self.description.size_of(dimensions)
        _require_size(validate_bytes(destination, "the destination"), size, "destination", dimensions)
        storage.copy_to(destination, size)

    def copy_from_other(self, other: AllocatedMemory) -> None:
        """Copy all values from other memory; between devices through the host. Raises as both copies do."""
        if other is self:
            self._require_held()
            return
        try:
            storage, dimensions = other._require_held()
        except BaseException:
            self._empty()
            raise
        if other.is_lent and 0 in dimensions:  # as its device says
            self.become_empty(dimensions)
            return
        with self._filling(dimensions):
            self.description.require_like(other.description)
            size = self.description.size_of(dimensions)
            self._fill(storage.to_host(size), size, dimensions)

    def require_alive(self) -> None:
        self._living()

    def to_host(self) -> tuple[Memory, Dimensions]:
        """The values in host memory, and their dimensions. Raises GENERAL_FAILURE if the memory is uninitialised."""
        held = self._held()
        if held is None:
            general_failure(_EMPTY)
        storage, dimensions = held
        if not self.description.is_fixed(dimensions):
            general_failure(f"an empty value, {list(dimensions)}, in a buffer of {self.device} is for that device only")
        return storage.to_host(self.description.size_of(dimensions)), dimensions

    def from_host(self, memory: Memory, dimensions: Dimensions) -> None:
        """Take values that another device wrote to ``memory``. After a failure it is uninitialised."""
        with self._filling(dimensions) as known:
            size = self.description.size_of(known)
            _require_size(validate_bytes(memory, "the source"), size, "source", known)
            if memory is self.host:
                self._become(known, self._storage)
            else:
                self._fill(memory, size, known)

    def lend(self) -> None:
        """Have runs write it that nobody tells of here."""
        with self._lock:
            self.is_lent = True
            self._dimensions, self._filled = self.description.dimensions, None if self._closed else self._storage

    def written(self, dimensions: Dimensions, succeeded: bool) -> None:
        known = combine(self.description.dimensions, dimensions)
        if succeeded and known is not None and self.description.is_fixed(known):
            self._become(known, self._storage)
        else:
            self._empty()

    def require_readable(self, operand_dimensions: Dimensions) -> None:
        storage = self._living()
        with self._lock:
            dimensions, holds_values = self._dimensions, self.is_lent or self._filled is storage
        if not holds_values:
            general_failure(_EMPTY)
        if combine(dimensions, operand_dimensions) is None:
            invalid_argument(
                f"an input is to have dimensions {describe(operand_dimensions)}, the values in its memory have "
                f"{describe(dimensions)}"
            )

    def close(self) -> None:
        with self._lock:
            closed, self._closed = self._closed, True
            storage = self._storage
        if not closed:
            self._empty()
            storage.release()

    def _living(self) -> Storage:
        """The storage, allocated again if its device came back.

        Raises DeadObjectError if it is gone, INVALID_ARGUMENT if the memory has been freed meanwhile.
        """
        storage = self._storage
        if storage.gone:
            with self._renewing:
                storage = self._storage
                if storage.gone:  # otherwise another thread has allocated it again
                    storage = storage.renewed()
                    self._replace_by(storage)
        return storage

    def _replace_by(self, storage: Storage) -> None:
        with self._lock:
            closed = self._closed
            if not closed:
                self._storage = storage
        if closed:
            storage.release()
            invalid_argument(_FREED)

    @contextmanager
    def _filling(self, dimensions: Dimensions) -> Generator[Dimensions]:
        """Fill it with values of these dimensions; yields all dimensions. After any failure it is uninitialised."""
        try:
            known = combine(self.description.dimensions, dimensions)
            if known is None or not self.description.is_fixed(known):
                invalid_argument(
                    f"values of dimensions {describe(dimensions)} for memory of {describe(self.description.dimensions)}"
                    ", expected dimensions that agree and are all known"
                )
            yield known
        except BaseException:
            self._empty()
            raise

    def _fill(self, source: Memory, size: int, dimensions: Dimensions) -> None:
        storage = self._living()
        storage.copy_from(source, size, dimensions)
        self._become(dimensions, storage)

    def _held(self) -> tuple[Storage, Dimensions] | None:
        """The storage and the dimensions of its values; None if it is uninitialised. Raises as ``_living``."""
        with self._lock:
            storage, dimensions = self._filled, self._dimensions
        living = self._living()
        if self.is_lent:
            found = living.held(dimensions)
            return None if found is None else (living, found)
        return None if storage is None or storage is not living else (storage, dimensions)

    def _require_held(self) -> tuple[Storage, Dimensions]:
        """As ``_held``. Raises INVALID_ARGUMENT if it is uninitialised."""
        held = self._held()
        if held is None:
            invalid_argument(_EMPTY)
        return held

    def _become(self, dimensions: Dimensions, storage: Storage) -> None:
        """Note that it holds values, written to this storage, which may have been replaced meanwhile."""
        with self._lock:
            self._dimensions = self.description.dimensions if self.is_lent else dimensions
            self._filled = None if self._closed else storage

    def _empty(self) -> None:
        with self._lock:
            if self._closed or not self.is_lent:
                self._filled = None


def _require_size(available: int, size: int, what: str, dimensions: Dimensions) -> None:
    if available != size:
        invalid_argument(f"a {what} of {available} bytes, expected {size} for values of dimensions {list(dimensions)}")


class Memories:
    """The memory of one session. Each is kept as long as it has a user, and at most until the session ends.

    Users are distinguished by identity. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: dict[AllocatedMemory, list[object]] | None = {}

    def keep(self, memory: AllocatedMemory, user: object) -> None:
        """Keep memory for a user.

        Raises INVALID_ARGUMENT if it has been freed meanwhile, and DEVICE_UNAVAILABLE, after freeing it, if the session
        is over.
        """
        with self._lock:
            if self._users is not None and not memory.closed:
                self._users.setdefault(memory, []).append(user)
                return
            over = self._users is None
        memory.close()
        if over:
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the session is over")
        invalid_argument(_FREED)

    def drop(self, user: object) -> None:
        """Note that a user needs its memory no longer; harmless if repeated."""
        unused: list[AllocatedMemory] = []
        with self._lock:
            for memory, users in list((self._users or {}).items()):
                users[:] = [other for other in users if other is not user]
                if not users and self._users is not None:
                    del self._users[memory]
                    unused.append(memory)
        for memory in unused:
            memory.close()

    def close(self) -> None:
        """End the session and free all of its memory; harmless if repeated."""
        with self._lock:
            users, self._users = self._users or {}, None
        for memory in users:
            memory.close()
