"""The memory of a process that serves large messages, and settings of the C library's allocator for it."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
_KEPT_BYTES = 64 << 20
_LARGEST_IN_HEAP = 32 << 20
"""The most that glibc allows."""


_STATM = Path("/proc/self/statm")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """The bytes of physical memory that this process takes."""
    return int(_STATM.read_bytes().split()[1]) * _PAGE_BYTES


def return_freed_memory() -> None:
    """Give memory that is kept back to the system. Does nothing with another C library."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def keep_freed_memory() -> None:
    """Let freed blocks of up to 32 MiB be used again, and keep up to 64 MiB of them in each of malloc's arenas.

    By default glibc returns what the few buffers of a request needed to the system after each request, and each page
    is then faulted in again: that doubled the processor time of a request of 1 MiB. Does nothing with another C
    library.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _LARGEST_IN_HEAP)
