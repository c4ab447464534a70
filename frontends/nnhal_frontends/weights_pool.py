"""Values of a model that lie outside of its file: in files of their own, or in memory of whoever loads it."""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal.descriptor import Descriptor
from nnhal.memory import Region, read_only
from nnhal.memory.ashmem import is_read_only, is_tmpfs
from nnhal.types import Ashmem, MappableFile, Memory
from nnhal_frontends.errors import InvalidModel


class WeightsPool:
    """A file with values of models, which refer to them instead of having copies. Safe to use from several threads.

    A file that can change is copied when ``memory`` or ``values`` are first asked for; until then nobody maps it, since
    an access to what it has lost would be a signal, and it must stay as it is.
    """

    def __init__(self, file: Descriptor, size: int, name: str) -> None:
        """``size`` in bytes; ``name`` is the model's for the file. Raises OSError."""
        self.size = size
        self._file, self._name = file, name
        self._version = _version_of(file)
        self._lock = threading.Lock()
        self._final: tuple[Ashmem, Bytes] | None = None
        if is_read_only(file) and is_tmpfs(file):
            self._final = self._fixed()

    @property
    def memory(self) -> Ashmem:
        """Memory of the values, which is final. Raises InvalidModel if the file cannot be read, or has changed."""
        return self._mapped()[0]

    @property
    def values(self) -> Bytes:
        """A view of that memory, read-only. Raises as ``memory``."""
        return self._mapped()[1]

    @property
    def reference(self) -> Memory:
        """The file for a device that reads it once, or ``memory`` if there is that already."""
        final = self._final
        return MappableFile(self._file, self.size, mmap.PROT_READ) if final is None else final[0]

    def read(self, start: int, length: int) -> Bytes:
        """Return a copy of some values. Raises InvalidModel."""
        found = np.empty(length, np.uint8)
        try:
            count = self._file.read_into(found.data, start)
        except OSError as error:
            raise self._unreadable(error.strerror) from error
        if count < length:
            raise self._unreadable(f"it has {start + count} bytes by now, expected {self.size}")
        return found

    def require_unchanged(self) -> None:
        """Check that the file is what it was when this was made. Raises InvalidModel."""
        if self._final is None and _version_of(self._file) != self._version:
            raise InvalidModel(f"the file '{self._name}' with values of the model has changed since it was handed over")

    def offset_of(self, values: Array) -> int | None:
        """Return where an array begins in the memory; None if its elements do not lie in it, one behind the other."""
        if self._final is None or not values.flags.c_contiguous or not values.nbytes:
            return None
        offset = _address(values) - _address(self._final[1])
        return offset if 0 <= offset <= self.size - values.nbytes else None

    def _mapped(self) -> tuple[Ashmem, Bytes]:
        with self._lock:
            if self._final is None:
                final = self._fixed()
                self.require_unchanged()
                self._final = final
            return self._final

    def _fixed(self) -> tuple[Ashmem, Bytes]:
        try:
            memory = read_only(self._file, self.size, "nnhal-weights")
            return memory, Region(memory.descriptor, memory.size, writable=False).bytes()
        except (OSError, ValueError) as error:
            raise self._unreadable(error.strerror if isinstance(error, OSError) else str(error)) from error

    def _unreadable(self, reason: str | None) -> InvalidModel:
        return InvalidModel(f"the file '{self._name}' with values of the model cannot be read: {reason}")


Weights: TypeAlias = Mapping[str, WeightsPool]
"""The memory of the files that a model's file names, by the names that it has for them."""


def pool_of(pools: Mapping[str, WeightsPool], values: Array) -> tuple[WeightsPool, int] | None:
    """Return the pool that an array lies in, and where; None if it lies in none, or its elements are not aligned."""
    for pool in pools.values():
        offset = pool.offset_of(values)
        if offset is not None and offset % values.itemsize == 0:
            return pool, offset
    return None


def _version_of(file: Descriptor) -> tuple[int, int]:
    """Return what changes with the content of a file. Removing or renaming it does not."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _address(values: Array) -> int:
    return int(values.__array_interface__["data"][0])
