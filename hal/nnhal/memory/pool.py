"""Pools in use: checked against the file behind them, then mapped, or read and written if mapping is not safe.

Memory that cannot shrink is mapped: ashmem, BLOB buffers, and sealed files. Other files are read
with pread and written with pwrite, so that a truncation causes an error status and never a signal. With a guard they
are mapped as well, for code that runs without the interpreter's lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import stat
import weakref
from collections.abc import Callable, Collection, Sequence

import numpy as np

from nnhal.arrays import Bytes
from nnhal.errors import general_failure, invalid_argument
from nnhal.exhaustion import host_failure
from nnhal.memory.ashmem import cannot_shrink, is_read_only
from nnhal.memory.copy_budget import CopyBudget
from nnhal.memory.file_identity import FileIdentity, identity_of
from nnhal.memory.guard import GuardedRegion, MemoryGuard
from nnhal.memory.hardware_buffer import Format, describe_buffer, is_blob
from nnhal.memory.mapping import Region
from nnhal.types import Ashmem, HardwareBuffer, MappableFile, Memory

_FUTURE_WRITE = 0x10  # F_SEAL_FUTURE_WRITE of linux/fcntl.h
_PROTECTION = mmap.PROT_READ | mmap.PROT_WRITE


def validate_pool(memory: Memory, place: str) -> int:
    """Check a pool and return its bytes, 0 for an image buffer.

    Raises INVALID_ARGUMENT if the description of ashmem or of a file is wrong, and, as the NN HAL recommends,
    GENERAL_FAILURE if the handle of a hardware buffer cannot be decoded.
    """
    if isinstance(memory, Ashmem):
        if memory.size <= 0:
            invalid_argument(f"{place} is ashmem of {memory.size} bytes, expected more than 0")
        if not cannot_shrink(memory.descriptor):
            invalid_argument(
                f"{place} is ashmem that is not a memfd sealed against shrinking (F_SEAL_SHRINK), of ordinary pages"
            )
        _require_length(memory.descriptor.fileno(), memory.size, place)
        return memory.size
    if isinstance(memory, MappableFile):
        _validate_file(memory, place)
        return memory.length
    try:
        description = describe_buffer(memory)
    except ValueError as error:
        general_failure(f"{place} is an invalid hardware buffer: {error}")
    return description.byte_size if description.format == Format.BLOB else 0


def validate_bytes(memory: Memory, place: str) -> int:
    """Check a pool that is used as bytes and return them. Raises as ``validate_pool``, GENERAL_FAILURE for an image."""
    size = validate_pool(memory, place)
    if not size and isinstance(memory, HardwareBuffer):
        general_failure(f"{place} is {_describe_image(memory)}")
    return size


def _describe_image(memory: HardwareBuffer) -> str:
    return f"a hardware buffer of format {describe_buffer(memory).format.name}, expected format BLOB"


def is_blob_or_flat(memory: Memory) -> bool:
    """Return whether a valid pool consists of bytes that can be used in parts, unlike an image buffer."""
    return not isinstance(memory, HardwareBuffer) or is_blob(memory)


def cannot_change(memory: Memory) -> bool:
    """Return whether the contents of a pool are final, because the files behind it are sealed against writing."""
    descriptors = memory.handle.descriptors if isinstance(memory, HardwareBuffer) else (memory.descriptor,)
    return all(is_read_only(descriptor) for descriptor in descriptors)


def seal_for_readers(memory: Memory) -> None:
    """Have memory that this process has made be written through the mappings that there are, and in no other way.

    Before Linux 5.1, and if no seals can be added, it does nothing.
    """
    descriptors = memory.handle.descriptors if isinstance(memory, HardwareBuffer) else (memory.descriptor,)
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor.fileno(), fcntl.F_ADD_SEALS, _FUTURE_WRITE)


def _validate_file(memory: MappableFile, place: str) -> None:
    if memory.length <= 0 or memory.offset < 0:
        invalid_argument(
            f"{place} is {memory.length} bytes of a file from byte {memory.offset}, expected a length above 0 and "
            "an offset of 0 or more"
        )
    if memory.prot & ~_PROTECTION or not memory.prot & mmap.PROT_READ:
        invalid_argument(
            f"{place} is a file with protection {memory.prot}, expected PROT_READ, optionally with PROT_WRITE"
        )
    if not stat.S_ISREG(os.fstat(memory.descriptor.fileno()).st_mode):
        invalid_argument(f"{place} is not a regular file")
    _require_length(memory.descriptor.fileno(), memory.offset + memory.length, place)


def _require_length(fd: int, needed: int, place: str) -> None:
    available = os.fstat(fd).st_size
    if available < needed:
        invalid_argument(f"{place} needs {needed} bytes, but the file behind it has {available}")


class MappedPool:
    """A pool that is used in place."""

    def __init__(self, region: Region) -> None:
        self.identity = region.identity
        self._region = region
        self._bytes = region.bytes()
        self.writable = self._bytes.flags.writeable

    def view(self, offset: int, length: int) -> Bytes:
        return self._bytes[offset : offset + length]

    @property
    def size(self) -> int:
        return len(self._bytes)

    def read(self, offset: int, length: int) -> Bytes:
        """Return a copy of a range."""
        return self._bytes[offset : offset + length].copy()

    def write(self, offset: int, data: Bytes) -> None:
        self._bytes[offset : offset + len(data)] = data

    def when_unmapped(self, callback: Callable[[], object]) -> Callable[[], object]:
        """Call back once, when the last view of the memory is gone, or when what is returned is called before.

        The call may come from the garbage collector: in any thread, and while that holds any lock.
        """
        finalizer = weakref.finalize(self._region, callback)
        finalizer.atexit = False
        return finalizer


class FilePool:
    """A pool that is read and written by system calls because its file may shrink."""

    def __init__(self, memory: MappableFile, writable: bool) -> None:
        self.writable = writable
        self._descriptor = memory.descriptor
        self._offset = memory.offset
        self.size = memory.length

    @property
    def identity(self) -> FileIdentity:
        """The file. Raises OSError."""
        return identity_of(self._descriptor.fileno())

    def read(self, offset: int, length: int, data: Bytes | None = None) -> Bytes:
        """Return a copy of a range, in ``data`` if it is given. Raises GENERAL_FAILURE if the file cannot be read or
        has been truncated.
        """
        data = np.empty(length, np.uint8) if data is None else data
        try:
            done = self._descriptor.read_into(data.data[:length], self._offset + offset)
        except OSError as error:
            raise host_failure("a file pool cannot be read", error) from error
        if done < length:
            general_failure(f"a file pool has been truncated: {done} of {length} bytes at offset {offset} are left")
        return data

    def write(self, offset: int, data: Bytes) -> None:
        """Overwrite a range. Raises GENERAL_FAILURE if the file cannot be written or has been truncated."""
        descriptor = self._descriptor.fileno()
        try:
            if os.fstat(descriptor).st_size < self._offset + offset + len(data):
                general_failure(
                    f"a file pool has been truncated: not all of the {len(data)} bytes at offset {offset} are left"
                )
            done = 0
            while done < len(data):
                done += os.pwrite(descriptor, data.data[done:], self._offset + offset + done)
        except OSError as error:
            raise host_failure("a file pool cannot be written", error) from error


class GuardedPool(FilePool):
    """A FilePool that is mapped too, for code that accesses its memory within ``MemoryGuard.use`` only."""

    def __init__(self, memory: MappableFile, writable: bool, region: GuardedRegion) -> None:
        super().__init__(memory, writable)
        self.region = region

    def view(self, offset: int, length: int) -> Bytes:
        """Return a view of a range: an address, not to be read or written while the interpreter's lock is held."""
        return self.region.bytes()[offset : offset + length]


Pool = MappedPool | FilePool


def open_pool(memory: Memory, writable: bool, guard: MemoryGuard | None = None) -> Pool:
    """Open a validated pool for use. Raises GENERAL_FAILURE if it cannot be mapped, or written as asked.

    With a ``guard``, a file that may shrink becomes a GuardedPool if that can be.
    """
    try:
        if isinstance(memory, Ashmem):
            return MappedPool(Region(memory.descriptor, memory.size, writable=writable))
        if isinstance(memory, MappableFile):
            if writable and not memory.prot & mmap.PROT_WRITE:
                general_failure("a file pool with protection PROT_READ cannot be opened for writing")
            if not cannot_shrink(memory.descriptor):
                return _open_file(memory, writable, guard)
            return MappedPool(Region(memory.descriptor, memory.length, memory.offset, writable))
        description = describe_buffer(memory)
        if not is_blob(memory):
            general_failure(f"a pool cannot be mapped: it is {_describe_image(memory)}")
        return MappedPool(Region(memory.handle.descriptors[0], description.byte_size, writable=writable))
    except (OSError, ValueError) as error:
        raise host_failure("a pool cannot be mapped", error) from error


def _open_file(memory: MappableFile, writable: bool, guard: MemoryGuard | None) -> FilePool:
    """Open a file that may shrink. If it cannot be mapped, its reads and writes say why."""
    with contextlib.suppress(OSError, ValueError):
        region = guard.map(memory, writable) if guard is not None else None
        if region is not None:
            return GuardedPool(memory, writable, region)
    return FilePool(memory, writable)


def read_pools(
    pools: Sequence[Memory], used: Collection[int] | None = None, copies: CopyBudget | None = None
) -> dict[int, Bytes]:
    """Return the bytes of a model's pools, read-only, by index; only of the pools in ``used`` if it is given.

    A file that may shrink is read once, since constants must not change or vanish while they are used, and counts among
    ``copies`` as long as it is used. Raises GENERAL_FAILURE if a pool cannot be read, RESOURCE_EXHAUSTED_TRANSIENT if
    it does not fit the budget.
    """
    contents = {}
    for index in range(len(pools)) if used is None else used:
        pool = open_pool(pools[index], writable=False)
        if isinstance(pool, FilePool):
            copy = (
                None
                if copies is None
                else copies.allocate(pool.size, f"a copy of pool {index}, whose file may shrink,")
            )
            contents[index] = pool.read(0, pool.size, copy)
        else:
            contents[index] = pool.view(0, pool.size)
    return contents
