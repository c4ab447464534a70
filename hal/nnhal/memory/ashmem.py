"""Anonymous shared memory: a memfd that is sealed against shrinking, so that accesses to a view cannot fault."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import sys
from collections.abc import Iterable, Iterator

from nnhal.arrays import Bytes
from nnhal.descriptor import Descriptor
from nnhal.types import Ashmem

_FIXED_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_READ_ONLY = _FIXED_SIZE | fcntl.F_SEAL_WRITE
_SEALING_ATTEMPTS = 16
_TMPFS_MAGIC = 0x01021994  # from linux/magic.h
_STATFS_BYTES = 256  # more than a struct statfs, which begins with the magic
_libc = ctypes.CDLL(None)


def create_ashmem(size: int, name: str = "nnhal", is_final: bool = True) -> Ashmem:
    """Create ``size`` bytes of zeroed memory. ``name`` shows in /proc; ``is_final`` as of ``create_sealed``.

    Raises ValueError unless ``size`` is above 0.
    """
    return Ashmem(create_sealed(size, name, is_final), size)


def create_read_only(contents: Iterable[tuple[int, Bytes]], size: int, name: str = "nnhal") -> Ashmem:
    """Create ``size`` bytes of memory that can no longer change: zero but for ``contents``, each at its offset.

    Raises ValueError unless ``size`` is above 0.
    """
    descriptor = _memfd(size, name)
    for offset, content in contents:
        done = 0
        while done < len(content):
            done += os.pwrite(descriptor.fileno(), content.data[done:], offset + done)
    return _unwritable(descriptor, size)


def read_only(file: Descriptor, size: int, name: str = "nnhal") -> Ashmem:
    """Return the first ``size`` bytes of a file as memory that cannot change: its own if it is sealed, or a copy.

    The copy has holes where the file has, and is made by the kernel. Raises ValueError if ``size`` is not above 0 or
    the file is shorter, OSError if it cannot be read.
    """
    if size > os.fstat(file.fileno()).st_size:
        raise ValueError(f"the file has {os.fstat(file.fileno()).st_size} bytes, expected {size}")
    if is_read_only(file) and is_tmpfs(file):
        return _unwritable(file, size)
    copy = _memfd(size, name)
    for start, end in _extents(file, size):
        os.lseek(copy.fileno(), start, os.SEEK_SET)
        while start < end:
            sent = os.sendfile(copy.fileno(), file.fileno(), start, end - start)
            if not sent:
                raise ValueError(f"the file has {start} bytes by now, expected {size}")
            start += sent
    return _unwritable(copy, size)


def _extents(file: Descriptor, size: int) -> Iterator[tuple[int, int]]:
    """The parts of a file that are no holes."""
    if os.fstat(file.fileno()).st_blocks * 512 >= size:
        yield 0, size
        return
    end = 0
    while end < size:
        try:
            start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            end = min(size, os.lseek(file.fileno(), start, os.SEEK_HOLE))
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole is left
                return
            raise
        if start < end:
            yield start, end


def _unwritable(descriptor: Descriptor, size: int) -> Ashmem:
    """Seal a file against all changes, if it is not, and return it as memory."""
    if not is_read_only(descriptor):
        _seal(descriptor)
    # Before Linux 6.7 a descriptor that was opened for writing cannot be mapped any more.
    return Ashmem(Descriptor(os.open(f"/proc/self/fd/{descriptor.fileno()}", os.O_RDONLY | os.O_CLOEXEC)), size)


def _seal(descriptor: Descriptor) -> None:
    """Seal a file against all changes. Raises OSError.

    The kernel refuses that with EBUSY while something else holds a page, be it to reclaim or to move it, for which it
    waits some tens of milliseconds.
    """
    for attempt in range(_SEALING_ATTEMPTS):
        try:
            fcntl.fcntl(descriptor.fileno(), fcntl.F_ADD_SEALS, _READ_ONLY)
            return
        except OSError as error:
            if error.errno != errno.EBUSY or attempt == _SEALING_ATTEMPTS - 1:
                raise


def create_sealed(size: int, name: str, is_final: bool = True) -> Descriptor:
    """Create a memfd whose size can no longer change; further seals can be added unless that ``is_final``.

    Raises ValueError unless ``size`` is above 0.
    """
    descriptor = _memfd(size, name)
    seals = _FIXED_SIZE if is_final else _FIXED_SIZE & ~fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor.fileno(), fcntl.F_ADD_SEALS, seals)
    return descriptor


def cannot_shrink(descriptor: Descriptor) -> bool:
    """Return whether a file is sealed against shrinking. False for files that cannot be sealed.

    False also for huge pages, which the kernel may have no more of when they are accessed.
    """
    return bool(_seals(descriptor) & fcntl.F_SEAL_SHRINK) and is_tmpfs(descriptor)


def is_tmpfs(descriptor: Descriptor) -> bool:
    """Return whether a file lies in memory: in a tmpfs such as /dev/shm, or as a memfd of ordinary pages."""
    status = ctypes.create_string_buffer(_STATFS_BYTES)
    if _libc.fstatfs(descriptor.fileno(), status):
        return False
    return int.from_bytes(status.raw[: ctypes.sizeof(ctypes.c_long)], sys.byteorder) == _TMPFS_MAGIC


def is_read_only(descriptor: Descriptor) -> bool:
    """Return whether a file is sealed against writing and shrinking. False for files that cannot be sealed."""
    needed = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK  # a file that shrinks and grows again has lost its bytes
    return _seals(descriptor) & needed == needed


def _memfd(size: int, name: str) -> Descriptor:
    if size <= 0:
        raise ValueError(f"the pool has {size} bytes, expected more than 0")
    descriptor = Descriptor(os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    os.ftruncate(descriptor.fileno(), size)
    return descriptor


def _seals(descriptor: Descriptor) -> int:
    try:
        return fcntl.fcntl(descriptor.fileno(), fcntl.F_GET_SEALS)
    except OSError:
        return 0
