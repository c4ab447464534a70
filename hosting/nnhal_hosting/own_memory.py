"""The memory that this process has for itself."""

from __future__ import annotations

import ctypes
import mmap
import os

from nnhal.descriptor import Descriptor

_RESIDENT, _SHARED = 1, 2


class OwnBytes:
    """The resident bytes that only this process has: neither files nor memory that it shares with others.

    Call it for their number now. It keeps its file open: a process without a free descriptor is looked at too.
    """

    def __init__(self) -> None:
        """Raises OSError."""
        self._statm = Descriptor(os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC))

    def __call__(self) -> int:
        fields = os.pread(self._statm.fileno(), 256, 0).split()
        return (int(fields[_RESIDENT]) - int(fields[_SHARED])) * mmap.PAGESIZE


def return_freed_memory() -> None:
    """Give memory that is kept back to the system. Does nothing with another C library."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
