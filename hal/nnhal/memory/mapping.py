"""Mapped memory whose views cannot outlive it.

A Region is never unmapped by hand. Every view holds the region, and the region is unmapped when the last view is gone.
A view therefore never refers to unmapped memory.
"""

from __future__ import annotations

import mmap
import threading
import weakref

import numpy as np

from nnhal.arrays import Bytes
from nnhal.descriptor import Descriptor
from nnhal.memory.file_identity import FileIdentity, identity_of

_regions: weakref.WeakSet[Region] = weakref.WeakSet()
_lock = threading.Lock()


class Region(mmap.mmap):
    """``length`` bytes of a file, from ``offset`` on, as a shared mapping."""

    __slots__ = ("identity", "skipped")

    identity: FileIdentity
    """The file."""
    skipped: int

    def __new__(cls, descriptor: Descriptor, length: int, offset: int = 0, writable: bool = True) -> Region:
        """Map the memory. ``offset`` need not be a multiple of the page size. Raises OSError or ValueError."""
        skipped = offset % mmap.ALLOCATIONGRANULARITY
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self = super().__new__(
            cls, descriptor.fileno(), length + skipped, mmap.MAP_SHARED, protection, offset=offset - skipped
        )
        self.skipped = skipped
        self.identity = identity_of(descriptor.fileno())
        with _lock:
            _regions.add(self)
        return self

    def close(self) -> None:
        """Do nothing: the region is unmapped with its last view."""

    def __exit__(self, *_: object) -> None:
        """Do nothing: mmap's own method would unmap the region."""

    def bytes(self) -> Bytes:
        """Return one view of the whole region, read-only if the mapping is."""
        return np.frombuffer(self, np.uint8, offset=self.skipped)


def mapped_regions() -> tuple[int, int]:
    """Return how many regions this process has mapped, and their bytes."""
    with _lock:
        regions = list(_regions)
    return len(regions), sum(len(region) for region in regions)
