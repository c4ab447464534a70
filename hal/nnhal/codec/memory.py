"""Conversion of memory and of locations in it."""

from __future__ import annotations

from collections.abc import Callable

from nnhal.descriptor import Descriptor
from nnhal.errors import invalid_argument
from nnhal.types import Ashmem, DataLocation, HardwareBuffer, MappableFile, Memory, NativeHandle
from nnhal.v1 import memory_pb2 as wire

Issue = Callable[[Descriptor], int]
Resolve = Callable[[int], Descriptor]


def memory_to_wire(memory: Memory, issue: Issue) -> wire.Memory:
    if isinstance(memory, Ashmem):
        return wire.Memory(ashmem=wire.Ashmem(descriptor_id=issue(memory.descriptor), size=memory.size))
    if isinstance(memory, MappableFile):
        return wire.Memory(
            mappable_file=wire.MappableFile(
                length=memory.length,
                prot=memory.prot,
                descriptor_id=issue(memory.descriptor),
                offset=memory.offset,
            )
        )
    handle = wire.NativeHandle(
        descriptor_ids=[issue(descriptor) for descriptor in memory.handle.descriptors], ints=memory.handle.ints
    )
    return wire.Memory(hardware_buffer=wire.HardwareBuffer(handle=handle))


def memory_from_wire(message: wire.Memory, resolve: Resolve) -> Memory:
    """Decode one region. Raises INVALID_ARGUMENT if no kind is set."""
    kind = message.WhichOneof("kind")
    if kind == "ashmem":
        return Ashmem(resolve(message.ashmem.descriptor_id), message.ashmem.size)
    if kind == "mappable_file":
        file = message.mappable_file
        return MappableFile(resolve(file.descriptor_id), file.length, file.prot, file.offset)
    if kind == "hardware_buffer":
        handle = message.hardware_buffer.handle
        return HardwareBuffer(NativeHandle(tuple(resolve(i) for i in handle.descriptor_ids), tuple(handle.ints)))
    invalid_argument("the memory has no kind, expected ashmem, mappable_file or hardware_buffer")


def location_to_wire(location: DataLocation) -> wire.DataLocation:
    return wire.DataLocation(
        pool_index=location.pool_index, offset=location.offset, length=location.length, padding=location.padding
    )


def location_from_wire(message: wire.DataLocation) -> DataLocation:
    return DataLocation(message.pool_index, message.offset, message.length, message.padding)
