"""Mapped memory whose views cannot outlive it.

A Region is never unmapped by hand. Every view holds the region, and the region is unmapped when the last view is gone.
A view therefore never refers to unmapped memory.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import weakref
from collections.abc import Collection

import numpy as np

from nnhal.arrays import Bytes
from nnhal.descriptor import Descriptor
from nnhal.memory.file_identity import FileIdentity, open_seals_of, seals_in

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_MAP_FIXED = 0x10  # linux/mman.h
_MAP_FAILED = ctypes.c_void_p(-1).value
_regions: weakref.WeakSet[Region] = weakref.WeakSet()
_lock = threading.Lock()


class Region(mmap.mmap):
    """``length`` bytes of a file, from ``offset`` on, as a shared mapping."""

    __slots__ = ("identity", "seals", "skipped")

    identity: FileIdentity
    """The file."""
    seals: tuple[str, ...]
    """Its seals when it was mapped."""
    skipped: int

    def __new__(cls, descriptor: Descriptor, length: int, offset: int = 0, writable: bool = True) -> Region:
        """Map the memory. ``offset`` need not be a multiple of the page size. Raises OSError or ValueError.

        Python's mmap of a file has a descriptor of it as long as it lives. So the file is mapped in the place of
        anonymous memory.
        """
        skipped = offset % mmap.ALLOCATIONGRANULARITY
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        file = os.fstat(descriptor.fileno())
        if not 0 < length <= file.st_size - offset or offset < 0:
            raise ValueError(f"a mapping of length {length} from byte {offset} of a file of {file.st_size} bytes")
        self = super().__new__(cls, -1, length + skipped, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, protection)
        map_at(self.address, len(self), protection, mmap.MAP_SHARED, descriptor.fileno(), offset - skipped)
        self.skipped = skipped
        self.identity, self.seals = FileIdentity(file.st_dev, file.st_ino), seals_in(descriptor.fileno())
        with _lock:
            _regions.add(self)
        return self

    @property
    def address(self) -> int:
        address: int = np.frombuffer(self, np.uint8).ctypes.data
        return address

    def close(self) -> None:
        """Do nothing: the region is unmapped with its last view."""

    def __exit__(self, *_: object) -> None:
        """Do nothing: mmap's own method would unmap the region."""

    def bytes(self) -> Bytes:
        """Return one view of the whole region, read-only if the mapping is."""
        return np.frombuffer(self, np.uint8, offset=self.skipped)


def map_at(address: int, length: int, protection: int, flags: int, descriptor: int = -1, offset: int = 0) -> None:
    """Replace the pages of a mapping. Raises OSError."""
    if _libc.mmap(address, length, protection, flags | _MAP_FIXED, descriptor, offset) == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), f"{length} bytes cannot be mapped: {os.strerror(ctypes.get_errno())}")


def seals_of(files: Collection[FileIdentity]) -> dict[FileIdentity, tuple[str, ...]]:
    """Return the names of the seals of files that this process holds open or mapped; files without any are left out."""
    found = open_seals_of(files)
    with _lock:
        regions = list(_regions)
    mapped = {region.identity: region.seals for region in regions if region.seals and region.identity in files}
    return {**mapped, **found}


def mapped_regions() -> tuple[int, int]:
    """Return how many regions this process has mapped, and their bytes."""
    with _lock:
        regions = list(_regions)
    return len(regions), sum(len(region) for region in regions)
