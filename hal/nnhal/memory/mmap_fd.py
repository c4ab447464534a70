"""A part of a regular file as memory ("mmap_fd").

A file that its owner could still truncate is never mapped: after a truncation, an access to the mapping would kill the
process. Only seals rule that out for ever: the flag of an immutable file can be taken away again, and a page of a file
on a disk, even under fs-verity, is gone if the disk fails.
"""

from __future__ import annotations

import mmap
import os

from nnhal.descriptor import Descriptor
from nnhal.types import MappableFile


def map_file(descriptor: Descriptor, length: int, offset: int = 0, writable: bool = True) -> MappableFile:
    """Describe a part of an open file as memory. ``length`` and ``offset`` are in bytes."""
    return MappableFile(descriptor, length, mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0), offset)


def create_file(path: str | os.PathLike[str], length: int) -> MappableFile:
    """Create a file of ``length`` zero bytes as memory. Raises OSError."""
    descriptor = Descriptor(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
    os.ftruncate(descriptor.fileno(), length)
    return map_file(descriptor, length)
