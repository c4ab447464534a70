"""Memory that a client shares with a device, and buffers of a device. ``nnhal.memory`` maps and checks the former."""

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


@dataclass(frozen=True, slots=True)
class BufferRole:
    """One use of a buffer: an input or output of a prepared model.

    ``model_index`` refers to the prepared models that the buffer is allocated for. ``probability``, above 0 and at most
    1, says how likely this use is.
    """

    model_index: int
    io_index: int
    probability: float = 1.0
