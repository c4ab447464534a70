"""Memory of each kind for tests: a pool for inputs and one for outputs, which later tests reuse if they fit."""

from __future__ import annotations

import tempfile
from enum import StrEnum
from pathlib import Path

from nnhal.memory import MappedPool, Pool, Region, create_ashmem, create_blob, open_pool
from nnhal.memory.mmap_fd import create_file
from nnhal.types import MappableFile, Memory

_LEAST_BYTES = 1 << 20


class MemoryChoice(StrEnum):
    """The kinds that a run may use; ``token`` is memory that the device owns."""

    ASHMEM = "ashmem"
    MMAP_FD = "mmap_fd"
    HARDWARE_BUFFER_BLOB = "hardware_buffer_blob"
    TOKEN = "token"


class TestMemory:
    """A pool that grows: ``reserve`` replaces it if it is too small."""

    __test__ = False  # not a test class, though pytest takes the name for one

    def __init__(self, kind: MemoryChoice) -> None:
        self._kind = kind
        self.memory, self.pool = self._create(_LEAST_BYTES)

    def reserve(self, size: int) -> None:
        """Have room for ``size`` bytes."""
        if size > self.pool.size:
            self.memory, self.pool = self._create(2 * size)

    def _create(self, size: int) -> tuple[Memory, Pool]:
        if self._kind == MemoryChoice.MMAP_FD:
            with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
                file = create_file(Path(directory) / "pool", size)
            return file, _map_own_file(file)
        memory = create_ashmem(size) if self._kind == MemoryChoice.ASHMEM else create_blob(size)
        return memory, open_pool(memory, writable=True)


def _map_own_file(file: MappableFile) -> Pool:
    """Map a file of this process's own, which no other process truncates."""
    return MappedPool(Region(file.descriptor, file.length, file.offset))
