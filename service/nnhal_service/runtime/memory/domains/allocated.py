"""Memory that was allocated for roles, with its state, and the memory that a session keeps."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from nnhal.errors import HalError, general_failure, invalid_argument
from nnhal.memory import validate_pool
from nnhal.types import ErrorStatus, Memory, RequestMemoryPool
from nnhal.types.layout import Dimensions, combine, describe
from nnhal_service.runtime.memory.domains.description import MemoryDescription
from nnhal_service.runtime.memory.domains.storage import HostStorage, Storage

_EMPTY = "the memory is uninitialised: nothing was copied or written to it yet, or that failed"


class AllocatedMemory:
    """A BoundMemory. Safe to use from several threads: a race leaves only the data undefined.

    It is uninitialised until values are copied to it or a run writes it, and again when that fails. Its dimensions are
    then those of the values; the next values may have any dimensions that its description allows.
    """

    def __init__(self, description: MemoryDescription, storage: Storage) -> None:
        self.description = description
        self._storage = storage
        self._lock = threading.Lock()
        self._dimensions = description.dimensions
        self._holds_values = False
        self._closed = False

    @property
    def device(self) -> str:
        return self._storage.device

    @property
    def pool(self) -> RequestMemoryPool:
        return self._storage.pool

    @property
    def host(self) -> Memory | None:
        """The host memory that it is; None for a device's buffer."""
        return self._storage.memory if isinstance(self._storage, HostStorage) else None

    @property
    def dimensions(self) -> Dimensions:
        return self._dimensions

    @property
    def closed(self) -> bool:
        """Whether it has been freed."""
        return self._closed

    def copy_from(self, source: Memory) -> None:
        """Copy all values from a client's memory of the same size.

        Raises INVALID_ARGUMENT if the sizes differ or the dimensions are unknown, and HalError or TransportError if
        copying fails. After any failure the memory is uninitialised.
        """
        with self._filling(()) as dimensions:
            size = self.description.size_of(dimensions)
            _require_size(validate_pool(source, "the source"), size, "source", dimensions)
            self._storage.copy_from(source, size, dimensions)

    def copy_to(self, destination: Memory) -> None:
        """Copy all values to a client's memory of the same size. The state does not change.

        Raises as ``copy_from`` does, and INVALID_ARGUMENT if the memory is uninitialised.
        """
        dimensions = self._held()
        size = self.description.size_of(dimensions)
        _require_size(validate_pool(destination, "the destination"), size, "destination", dimensions)
        self._storage.copy_to(destination, size)

    def copy_from_other(self, other: AllocatedMemory) -> None:
        """Copy all values from other memory; between devices through the host. Raises as both copies do."""
        if other is self:
            self._held()
            return
        with self._filling(other.dimensions):
            dimensions = other._held()
            self.description.require_like(other.description)
            size = self.description.size_of(dimensions)
            self._storage.copy_from(other._storage.to_host(size), size, dimensions)

    def require_alive(self) -> None:
        self._storage.require_alive()

    def to_host(self) -> Memory:
        """The values in host memory. Raises GENERAL_FAILURE if the memory is uninitialised."""
        if not self._holds_values:
            general_failure(_EMPTY)
        return self._storage.to_host(self.description.size_of(self._dimensions))

    def from_host(self, memory: Memory, dimensions: Dimensions) -> None:
        """Take values that another device wrote to ``memory``. After a failure it is uninitialised."""
        with self._filling(dimensions) as known:
            size = self.description.size_of(known)
            _require_size(validate_pool(memory, "the source"), size, "source", known)
            if memory is not self.host:
                self._storage.copy_from(memory, size, known)

    def written(self, dimensions: Dimensions, succeeded: bool) -> None:
        known = combine(self.description.dimensions, dimensions)
        if succeeded and known is not None and self.description.is_fixed(known):
            self._become(known)
        else:
            self._empty()

    def require_readable(self, operand_dimensions: Dimensions) -> None:
        self._storage.require_alive()
        with self._lock:
            dimensions, holds_values = self._dimensions, self._holds_values
        if not holds_values:
            general_failure(_EMPTY)
        if combine(dimensions, operand_dimensions) is None:
            invalid_argument(
                f"an input is to have dimensions {describe(operand_dimensions)}, the values in its memory have "
                f"{describe(dimensions)}"
            )

    def close(self) -> None:
        """Free it; harmless if repeated."""
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            self._empty()
            self._storage.release()

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
        self._become(known)

    def _held(self) -> Dimensions:
        """The dimensions of the values that it holds. Raises INVALID_ARGUMENT if it is uninitialised."""
        with self._lock:
            if self._holds_values:
                return self._dimensions
        invalid_argument(_EMPTY)

    def _become(self, dimensions: Dimensions) -> None:
        with self._lock:
            self._dimensions = dimensions
            self._holds_values = not self._closed

    def _empty(self) -> None:
        with self._lock:
            self._holds_values = False


def _require_size(available: int, size: int, what: str, dimensions: Dimensions) -> None:
    if available != size:
        invalid_argument(f"a {what} of {available} bytes, expected {size} for values of dimensions {list(dimensions)}")


class Memories:
    """The memory of one session. Each is kept as long as it has a user, and at most until the session ends.

    Users are told apart by identity. Safe to use from several threads.
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
        invalid_argument("the memory has been freed")

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
