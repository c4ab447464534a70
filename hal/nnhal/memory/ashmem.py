"""Anonymous shared memory: a memfd that is sealed against shrinking, so that accesses to a view cannot fault."""

from __future__ import annotations

import fcntl
import os

from nnhal.descriptor import Descriptor
from nnhal.types import Ashmem

_FIXED_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def create_ashmem(size: int, name: str = "nnhal") -> Ashmem:
    """Create ``size`` bytes of zeroed memory. ``name`` shows in /proc. Raises ValueError unless ``size`` is above 0."""
    return Ashmem(create_sealed(size, name), size)


def create_sealed(size: int, name: str) -> Descriptor:
    """Create a memfd whose size can no longer change. Raises ValueError unless ``size`` is above 0."""
    if size <= 0:
        raise ValueError(f"the pool has {size} bytes, expected more than 0")
    descriptor = Descriptor(os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    os.ftruncate(descriptor.fileno(), size)
    fcntl.fcntl(descriptor.fileno(), fcntl.F_ADD_SEALS, _FIXED_SIZE)
    return descriptor


def cannot_shrink(descriptor: Descriptor) -> bool:
    """Return whether a file is sealed against shrinking. False for files that cannot be sealed."""
    try:
        seals = fcntl.fcntl(descriptor.fileno(), fcntl.F_GET_SEALS)
    except OSError:
        return False
    return bool(seals & fcntl.F_SEAL_SHRINK)
