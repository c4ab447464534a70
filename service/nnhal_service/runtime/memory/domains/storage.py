"""Where the values of memory lie: in a device's own buffer, or in memory of the host."""

from __future__ import annotations

from typing import Protocol

from nnhal.errors import DeadObjectError, general_failure
from nnhal.memory import FilePool, create_ashmem, create_blob, open_pool
from nnhal.remote import RemoteBuffer
from nnhal.types import Memory, RequestMemoryPool
from nnhal.types.layout import Dimensions

_LARGEST_BLOB = 2**31 - 1
"""Bytes; a handle's integers have 32 bits."""


class Storage(Protocol):
    """Holds values and knows nothing of their state. Safe to use from several threads.

    Methods raise HalError, and TransportError where a device is gone.
    """

    @property
    def device(self) -> str:
        """Whose it is; empty for the host's."""
        ...

    @property
    def pool(self) -> RequestMemoryPool:
        """What a request refers to."""
        ...

    def require_alive(self) -> None:
        """Raise DeadObjectError where it is gone with its device."""
        ...

    def copy_from(self, source: Memory, size: int, dimensions: Dimensions) -> None:
        """Take all values from host memory of as many bytes."""
        ...

    def copy_to(self, destination: Memory, size: int) -> None:
        """Copy all values to host memory of as many bytes."""
        ...

    def to_host(self, size: int) -> Memory:
        """The values in host memory: in place, or a copy."""
        ...

    def release(self) -> None:
        """Give it up; harmless when repeated."""
        ...


def host_memory(size: int) -> Memory:
    """Memory that every device takes: a BLOB, or ashmem where that cannot be as large. Raises GENERAL_FAILURE."""
    try:
        return create_blob(size) if size <= _LARGEST_BLOB else create_ashmem(size)
    except (OSError, ValueError, OverflowError) as error:
        general_failure(f"{size} bytes of shared memory are not to be had: {error}")


class HostStorage:
    """Shared memory of the host."""

    device = ""

    def __init__(self, memory: Memory) -> None:
        self.pool: RequestMemoryPool = memory
        self.memory = memory

    def require_alive(self) -> None:
        """See Storage."""

    def copy_from(self, source: Memory, size: int, dimensions: Dimensions) -> None:
        """See Storage."""
        _copy(source, self.memory, size)

    def copy_to(self, destination: Memory, size: int) -> None:
        """See Storage."""
        _copy(self.memory, destination, size)

    def to_host(self, size: int) -> Memory:
        """See Storage."""
        return self.memory

    def release(self) -> None:
        """See Storage."""


class BufferStorage:
    """A buffer that a device owns."""

    def __init__(self, device: str, buffer: RemoteBuffer) -> None:
        self.device = device
        self._buffer = buffer

    @property
    def pool(self) -> RequestMemoryPool:
        """See Storage. Raises as ``require_alive``: another process may give the same token to another buffer."""
        self.require_alive()
        return self._buffer.token

    def require_alive(self) -> None:
        """See Storage."""
        if self._buffer.gone:
            raise DeadObjectError(f"the memory was device {self.device}'s own, and is gone with the device's process")

    def copy_from(self, source: Memory, size: int, dimensions: Dimensions) -> None:
        """See Storage."""
        self.require_alive()
        self._buffer.copy_from(source, dimensions)

    def copy_to(self, destination: Memory, size: int) -> None:
        """See Storage."""
        self.require_alive()
        self._buffer.copy_to(destination)

    def to_host(self, size: int) -> Memory:
        """See Storage."""
        memory = host_memory(size)
        self.copy_to(memory, size)
        return memory

    def release(self) -> None:
        """See Storage."""
        if not self._buffer.gone:
            self._buffer.release()


def _copy(source: Memory, destination: Memory, size: int) -> None:
    """From host memory to host memory. Nothing is written where not all of the source can be read."""
    pool = open_pool(source, writable=False)
    data = pool.read(0, size) if isinstance(pool, FilePool) else pool.view(0, size)
    open_pool(destination, writable=True).write(0, data)
