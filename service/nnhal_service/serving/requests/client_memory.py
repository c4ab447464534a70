"""Memory of clients, in which tensors of requests lie, and which devices use in place if they can.

A client may shorten the file of a region at any time. The framework therefore never maps it, but reads and writes it as
a file: missing bytes are then an error for that client, and not a signal for the whole process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from math import prod
from typing import NamedTuple

import numpy as np

from nnhal.arrays import Array
from nnhal.descriptor import Descriptor
from nnhal.memory import is_tmpfs, map_file
from nnhal.types import MappableFile
from nnhal.types.layout import Dimensions
from nnhal_service.serving.errors import ErrorKind, ServingError


class ClientRegion:
    """A part of a client's file. Safe to use from several threads.

    The file is closed with the last reference to the region: once it has been retired, when the requests and the
    instances that use it are gone.
    """

    def __init__(self, name: str, descriptor: Descriptor, offset: int, byte_size: int) -> None:
        """``offset`` is that of the part in the file, in bytes."""
        self.name = name
        self.offset = offset
        self.byte_size = byte_size
        status = os.fstat(descriptor.fileno())
        self.file = status.st_dev, status.st_ino
        """The device and inode of the file."""
        self.can_be_mapped = is_tmpfs(descriptor)
        """True if a device may be able to map it."""
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._retired: list[Callable[[ClientRegion], None]] | None = []

    def __reduce__(self) -> tuple[type[ClientRegion], tuple[str, Descriptor, int, int]]:
        """Another process has a region of its own, of the same file."""
        return ClientRegion, (self.name, self._descriptor, self.offset, self.byte_size)

    def read(self, offset: int, byte_size: int) -> memoryview:
        """A copy of some bytes. Raises INVALID_ARGUMENT if the file has become too short."""
        contents = np.empty(byte_size, np.uint8).data  # not zeroed: every byte is read
        done = self._descriptor.read_into(contents, self.offset + offset)
        if done < byte_size:
            raise self._shortened(byte_size, done)
        return contents

    def write(self, offset: int, contents: memoryview) -> None:
        """Overwrite some bytes. Raises as ``read``."""
        start = self.offset + offset
        if os.fstat(self._descriptor.fileno()).st_size < start + len(contents):
            raise self._shortened(len(contents), 0)  # writing would lengthen the client's file
        done = 0
        while done < len(contents):
            done += os.pwrite(self._descriptor.fileno(), contents[done:], start + done)

    def part(self, offset: int, byte_size: int) -> MappableFile:
        """Some bytes as memory of a device."""
        return map_file(self._descriptor, byte_size, self.offset + offset)

    def on_retired(self, callback: Callable[[ClientRegion], None]) -> None:
        """Call back, in any thread, when it is retired; at once if it already is."""
        with self._lock:
            if self._retired is not None:
                self._retired.append(callback)
                return
        callback(self)

    def forget(self, callback: Callable[[ClientRegion], None]) -> None:
        """Undo ``on_retired``; harmless if the callback has been called."""
        with self._lock:
            if self._retired is not None and callback in self._retired:
                self._retired.remove(callback)

    @property
    def is_retired(self) -> bool:
        """Return whether its client has given it up or is gone."""
        return self._retired is None

    def retire(self) -> None:
        """Have everybody forget it, since its client has given it up or is gone."""
        with self._lock:
            callbacks, self._retired = self._retired or [], None
        for callback in callbacks:
            callback(self)

    def _shortened(self, wanted: int, got: int) -> ServingError:
        return ServingError(
            ErrorKind.INVALID_ARGUMENT,
            f"shared memory region '{self.name}' is shorter than when it was registered: got {got} bytes, expected "
            f"{wanted}",
        )


class Place(NamedTuple):
    """Some bytes of a region."""

    region: ClientRegion
    offset: int
    byte_size: int

    def as_memory(self) -> MappableFile:
        """The bytes as memory of a device."""
        return self.region.part(self.offset, self.byte_size)

    def is_aligned(self, alignment: int) -> bool:
        """Return whether they begin in the file at a multiple of so many bytes."""
        return (self.region.offset + self.offset) % alignment == 0

    def overlaps(self, other: Place) -> bool:
        """Return whether both have bytes of a file in common, by whatever region."""
        first, second = self.region.offset + self.offset, other.region.offset + other.offset
        apart = first + self.byte_size <= second or second + other.byte_size <= first
        return self.region.file == other.region.file and not apart


class PlacedTensor:
    """A tensor of numbers in memory of a client. It has what arrays have, but for the elements."""

    __slots__ = ("dtype", "nbytes", "place", "shape", "size")

    def __init__(self, dtype: np.dtype[np.generic], shape: Dimensions, place: Place) -> None:
        self.dtype = dtype
        self.shape = shape
        self.size = prod(shape)
        self.nbytes = self.size * dtype.itemsize
        self.place = place

    def __len__(self) -> int:
        return self.shape[0]

    def read(self) -> Array:
        """A copy of it. Raises INVALID_ARGUMENT if the file has become too short."""
        raw = self.place.region.read(self.place.offset, self.nbytes)
        return np.frombuffer(raw, self.dtype).reshape(self.shape)


TensorData = Array | PlacedTensor
"""A tensor of a request or a response."""


def to_array(tensor: TensorData) -> Array:
    """A tensor as an array, read if it lies in memory of a client. Raises as ``PlacedTensor.read``."""
    return tensor.read() if isinstance(tensor, PlacedTensor) else tensor


def bytes_of(tensors: Iterable[TensorData]) -> int:
    """The bytes that it takes to copy tensors, which those in memory of clients are not."""
    size = 0
    for tensor in tensors:
        if not isinstance(tensor, PlacedTensor):
            size += tensor.nbytes
    return size
