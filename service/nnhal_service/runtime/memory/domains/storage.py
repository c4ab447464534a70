"""The storage behind allocated memory: a device's own buffer, or shared memory of the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from nnhal.errors import DeadObjectError, NnhalError, general_failure
from nnhal.exhaustion import host_failure
from nnhal.memory import FilePool, open_pool
from nnhal.remote import RemoteBuffer
from nnhal.types import Memory, RequestMemoryPool
from nnhal.types.layout import Dimensions
from nnhal_service.run_memory import run_ashmem, run_blob

_LARGEST_BLOB = 2**31 - 1
"""Bytes; a handle's integers have 32 bits."""


class Storage(Protocol):
    """Bytes without a state. Safe to use from several threads.

    Methods raise HalError, and TransportError if a device is gone.
    """

    @property
    def device(self) -> str:
        """The device that owns it; empty for the host's memory."""
        ...

    @property
    def pool(self) -> RequestMemoryPool:
        """The token or memory that a request names."""
        ...

    @property
    def gone(self) -> bool: ...

    def renewed(self) -> Storage:
        """Uninitialised storage in place of this one, which is gone.

        Raises DeadObjectError if the device is not back, or does not allocate it again.
        """
        ...

    def copy_from(self, source: Memory, size: int, dimensions: Dimensions) -> None:
        """Copy ``size`` bytes from host memory of that size."""
        ...

    def empty(self, dimensions: Dimensions) -> None:
        """Hold a value of these dimensions, of which one is 0."""
        ...

    def copy_to(self, destination: Memory, size: int) -> None:
        """Copy ``size`` bytes to host memory of that size."""
        ...

    def to_host(self, size: int) -> Memory:
        """The values in host memory, in place or as a copy."""
        ...

    def held(self, declared: Dimensions) -> Dimensions | None:
        """The dimensions of its value, by ``declared`` ones for each; None if its owner says that it holds none."""
        ...

    def release(self) -> None: ...


def host_memory(size: int) -> Memory:
    """Memory that every device takes: a BLOB, or ashmem if a BLOB cannot be that large. Raises HalError."""
    try:
        return run_blob(size) if size <= _LARGEST_BLOB else run_ashmem(size)
    except (OSError, ValueError, OverflowError) as error:
        raise host_failure(f"{size} bytes of shared memory", error) from error


class HostStorage:
    """Shared memory of the host."""

    device = ""
    gone = False

    def __init__(self, memory: Memory) -> None:
        self.pool: RequestMemoryPool = memory
        self.memory = memory

    def renewed(self) -> HostStorage:
        return self

    def copy_from(self, source: Memory, size: int, dimensions: Dimensions) -> None:
        _copy(source, self.memory, size)

    def empty(self, dimensions: Dimensions) -> None:
        general_failure(f"the host's memory has no empty value of {list(dimensions)}")

    def copy_to(self, destination: Memory, size: int) -> None:
        _copy(self.memory, destination, size)

    def to_host(self, size: int) -> Memory:
        return self.memory

    def held(self, declared: Dimensions) -> Dimensions:
        return declared

    def release(self) -> None:
        """Nothing to do: the memory goes with its last user."""


class BufferStorage:
    """A buffer that a device owns. All methods but ``release`` raise DeadObjectError if it is gone."""

    def __init__(self, device: str, buffer: RemoteBuffer, allocate: Callable[[], BufferStorage]) -> None:
        """``allocate`` makes such a buffer on the device's living process."""
        self.device = device
        self._buffer = buffer
        self._allocate = allocate

    @property
    def pool(self) -> RequestMemoryPool:
        """The token. A new process may give the same token to another buffer."""
        self._require_alive()
        return self._buffer.token

    @property
    def gone(self) -> bool:
        return self._buffer.gone

    def renewed(self) -> BufferStorage:
        try:
            return self._allocate()
        except NnhalError as error:
            raise self._death() from error

    def copy_from(self, source: Memory, size: int, dimensions: Dimensions) -> None:
        self._require_alive()
        self._buffer.copy_from(source, dimensions)

    def empty(self, dimensions: Dimensions) -> None:
        self._require_alive()
        self._buffer.empty(dimensions)

    def copy_to(self, destination: Memory, size: int) -> None:
        self._require_alive()
        self._buffer.copy_to(destination)

    def to_host(self, size: int) -> Memory:
        memory = host_memory(size)
        self.copy_to(memory, size)
        return memory

    def held(self, declared: Dimensions) -> Dimensions | None:
        self._require_alive()
        return self._buffer.dimensions() if self._buffer.reports_dimensions else declared

    def release(self) -> None:
        if not self._buffer.gone:
            self._buffer.release()

    def _require_alive(self) -> None:
        if self._buffer.gone:
            raise self._death()

    def _death(self) -> DeadObjectError:
        return DeadObjectError(f"the memory was device {self.device}'s own, and is gone with the device's process")


def _copy(source: Memory, destination: Memory, size: int) -> None:
    """Copy between host memories. Nothing is written if not all of the source can be read."""
    pool = open_pool(source, writable=False)
    data = pool.read(0, size) if isinstance(pool, FilePool) else pool.view(0, size)
    open_pool(destination, writable=True).write(0, data)
