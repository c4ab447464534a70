"""Memory that a client shares with a device: which file, and which part of it. See ``nnhal.memory`` for using it."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.descriptor import Descriptor


@dataclass(frozen=True, slots=True)
class Ashmem:
    """Anonymous shared memory: a memfd that is sealed against shrinking. ``size`` in bytes."""

    descriptor: Descriptor
    size: int


@dataclass(frozen=True, slots=True)
class MappableFile:
    """``length`` bytes of a regular file from ``offset``; ``prot`` as for mmap(2)."""

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
    """A range of a pool, in bytes. ``padding`` bytes after the value belong to it as scratch."""

    pool_index: int = 0
    offset: int = 0
    length: int = 0
    padding: int = 0


NOWHERE = DataLocation()
