"""Memory that a client shares with a device: which file, and which part of it. ``nnhal.memory`` maps and checks it."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.descriptor import Descriptor


@dataclass(frozen=True, slots=True)
class Ashmem:
    """Anonymous shared memory: a memfd that is sealed against shrinking. ``size`` is in bytes."""

    descriptor: Descriptor
    size: int


@dataclass(frozen=True, slots=True)
class MappableFile:
    """``length`` bytes of a regular file from ``offset`` on. ``prot`` is as for mmap(2)."""

    descriptor: Descriptor
    length: int
    prot: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class NativeHandle:
    """A graphics buffer's handle: descriptors, and integers that its allocator understands."""

    descriptors: tuple[Descriptor, ...]
    ints: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HardwareBuffer:
    """A gralloc buffer. ``nnhal.memory.hardware_buffer`` makes and decodes its handle."""

    handle: NativeHandle


Memory = Ashmem | MappableFile | HardwareBuffer


@dataclass(frozen=True, slots=True)
class DataLocation:
    """A range of a pool, in bytes. The ``padding`` bytes after the value may be used as scratch space."""

    pool_index: int = 0
    offset: int = 0
    length: int = 0
    padding: int = 0

    def __str__(self) -> str:
        return f"pool {self.pool_index}, offset {self.offset}, length {self.length}, padding {self.padding}"


NOWHERE = DataLocation()
