"""A part of a regular file as memory ("mmap_fd").

A file that its owner could still truncate is never mapped: after a truncation, an access to the mapping would kill the
process.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import mmap
import os
import sys

from nnhal.descriptor import Descriptor
from nnhal.memory.ashmem import cannot_shrink
from nnhal.types import MappableFile

# From linux/fs.h: reading the inode flags, and the flags that rule out truncation.
_FS_IOC_GETFLAGS = 0x80086601
_FS_IMMUTABLE = 0x10
_FS_VERITY = 0x100000

_TMPFS_MAGIC = 0x01021994  # from linux/magic.h
_STATFS_BYTES = 256  # more than a struct statfs, which begins with the magic
_libc = ctypes.CDLL(None)


def map_file(descriptor: Descriptor, length: int, offset: int = 0, writable: bool = True) -> MappableFile:
    """Describe a part of an open file as memory. ``length`` and ``offset`` are in bytes."""
    return MappableFile(descriptor, length, mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0), offset)


def create_file(path: str | os.PathLike[str], length: int) -> MappableFile:
    """Create a file of ``length`` zero bytes as memory. Raises OSError."""
    descriptor = Descriptor(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
    os.ftruncate(descriptor.fileno(), length)
    return map_file(descriptor, length)


def is_fixed(descriptor: Descriptor) -> bool:
    """Return whether a file can no longer shrink: it is sealed, immutable, or under fs-verity."""
    return cannot_shrink(descriptor) or bool(_inode_flags(descriptor) & (_FS_IMMUTABLE | _FS_VERITY))


def is_tmpfs(descriptor: Descriptor) -> bool:
    """Return whether a file lies in memory: in a tmpfs such as /dev/shm, or as a memfd."""
    status = ctypes.create_string_buffer(_STATFS_BYTES)
    if _libc.fstatfs(descriptor.fileno(), status):
        return False
    return int.from_bytes(status.raw[: ctypes.sizeof(ctypes.c_long)], sys.byteorder) == _TMPFS_MAGIC


def _inode_flags(descriptor: Descriptor) -> int:
    flags = array.array("l", [0])
    try:
        fcntl.ioctl(descriptor.fileno(), _FS_IOC_GETFLAGS, flags)
    except OSError:  # the file system has no such flags
        return 0
    return flags[0]
