"""Anonymous shared memory: a memfd that can no longer shrink, so that no view of it can fault."""

from __future__ import annotations

import fcntl
import os

from nnhal.descriptor import Descriptor
from nnhal.types import Ashmem

_FIXED_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def create_ashmem(size: int, name: str = "nnhal") -> Ashmem:
    """``size`` bytes of zeroed memory, sealed. ``name`` shows in /proc. ValueError where the size is not above 0."""
    return Ashmem(create_sealed(size, name), size)


def create_sealed(size: int, name: str) -> Descriptor:
    """A memfd of a size that nobody can change any more."""
    if size <= 0:
        raise ValueError(f"a pool of {size} bytes, expected more than 0")
    descriptor = Descriptor(os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    os.ftruncate(descriptor.fileno(), size)
    fcntl.fcntl(descriptor.fileno(), fcntl.F_ADD_SEALS, _FIXED_SIZE)
    return descriptor


def cannot_shrink(descriptor: Descriptor) -> bool:
    """Whether a file is sealed against shrinking. False for files that cannot be sealed."""
    try:
        seals = fcntl.fcntl(descriptor.fileno(), fcntl.F_GET_SEALS)
    except OSError:
        return False
    return bool(seals & fcntl.F_SEAL_SHRINK)
