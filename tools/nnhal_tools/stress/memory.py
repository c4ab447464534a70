"""Memory of every kind that a client may hand to a device."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, replace
from enum import Enum
from random import Random

import numpy as np

from nnhal.arrays import Bytes
from nnhal.descriptor import Descriptor
from nnhal.memory import Pool, create_ashmem, create_blob, map_file, open_pool
from nnhal.memory.ashmem import create_sealed
from nnhal.types import MappableFile, Memory


class BlockKind(Enum):
    """The kinds of memory. An open file is one that may still be truncated."""

    ASHMEM = "ashmem"
    SEALED_FILE = "sealed file"
    OPEN_FILE = "open file"
    BLOB = "blob"


KINDS = list(BlockKind)


@dataclass(frozen=True, slots=True)
class Block:
    """Memory, and the pool through which this process uses it."""

    kind: BlockKind
    size: int
    memory: Memory
    pool: Pool

    def read(self) -> Bytes:
        """A copy of its bytes."""
        return self.pool.read(0, self.size)

    def write(self, offset: int, data: Bytes) -> None:
        """Overwrite a range."""
        self.pool.write(offset, data)

    def truncate(self) -> None:
        """Truncate the file to nothing. Only for open files."""
        assert isinstance(self.memory, MappableFile)
        os.ftruncate(self.memory.descriptor.fileno(), 0)

    def read_only(self) -> Memory:
        """An open file as memory that must not be written."""
        assert isinstance(self.memory, MappableFile)
        return replace(self.memory, prot=1)


def create_block(size: int, kind: BlockKind, random: Random) -> Block:
    """Create memory of ``size`` bytes."""
    memory = _create(size, kind, random)
    return Block(kind, size, memory, open_pool(memory, writable=True))


def block_of(content: bytes, kind: BlockKind, random: Random) -> Block:
    """Create memory with this content."""
    block = create_block(len(content), kind, random)
    block.write(0, np.frombuffer(content, np.uint8))
    return block


def new_file(content: bytes = b"") -> Descriptor:
    """Create a file without a name, which ends with its descriptors, however the process ends."""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        return Descriptor(os.dup(file.fileno()))


def new_shared_file(content: bytes = b"") -> Descriptor:
    """Create a file in memory that may shrink: devices may map it under a guard."""
    descriptor = Descriptor(os.memfd_create("nnhal-stress", os.MFD_CLOEXEC))
    os.pwrite(descriptor.fileno(), content, 0)
    return descriptor


def _create(size: int, kind: BlockKind, random: Random) -> Memory:
    if kind is BlockKind.ASHMEM:
        return create_ashmem(size)
    if kind is BlockKind.BLOB:
        return create_blob(size)
    offset = random.choice((0, 0, 64, 4100))
    if kind is BlockKind.SEALED_FILE:
        return map_file(create_sealed(offset + size, "nnhal-stress"), size, offset)
    create = random.choice((new_file, new_shared_file))
    return map_file(create(bytes(offset + size)), size, offset)
