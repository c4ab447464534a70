"""Memory on the device in which values stay from run to run, and do not travel."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import NamedTuple

import grpc
import numpy as np

from nnhal.arrays import Bytes
from nnhal.errors import general_failure
from nnhal.v1 import wire_pb2 as wire
from nnhal_devices.remote.connection import WireConnection
from nnhal_devices.remote.releases import Releases
from nnhal_devices.wire import Scatter, chunks_of


class _Place(NamedTuple):
    """The host's view of a buffer, and the buffer's number on the device."""

    start: int
    size: int
    buffer: int


class KeptMemory:
    """The DeviceMemory of the device. Views are known by their addresses. Safe to use from several threads.

    A view takes memory of this host only after it has been fetched or written.
    """

    def __init__(self, connection: WireConnection, releases: Releases) -> None:
        self._connection = connection
        self._releases = releases
        self._places: dict[int, _Place] = {}
        """By the address of the view, which nothing else has as long as the view lives."""

    def allocate(self, size: int) -> Bytes:
        """Allocate zeroed memory and return the host's view, with whose end it is freed. Raises HalError."""
        if size <= 0:
            return np.zeros(0, np.uint8)
        stub = self._connection.stub
        buffer = self._connection.call(stub.AllocateBuffer, wire.AllocateBufferRequest(size=size)).buffer
        view = np.zeros(size, np.uint8)
        place = _Place(view.ctypes.data, size, buffer)
        self._places[place.start] = place
        weakref.finalize(view, self._forget, place).atexit = False
        return view

    def fetch(self, view: Bytes) -> None:
        """Bring the beginning of the memory into the host's view. Raises HalError."""
        if not len(view):
            return
        request = wire.FetchBufferRequest(buffer=self._buffer(view), length=len(view))
        scatter = Scatter([view], f"a buffer of {self._connection.place}", general_failure)
        try:
            for part in self._connection.stub.FetchBuffer(request, metadata=self._connection.metadata):
                scatter.feed(part.chunk)
        except grpc.RpcError as error:
            self._connection.fail(error)
        scatter.require_full()

    def store(self, view: Bytes) -> None:
        """Bring what the host has written into the view to the memory. Raises HalError."""
        if len(view):
            self._connection.call(self._connection.stub.StoreBuffer, _parts(self._buffer(view), view))

    def find(self, data: Bytes) -> int:
        """Return the number of the buffer at whose beginning an argument lies; 0 if it is in other memory."""
        place = self._places.get(data.ctypes.data)
        return place.buffer if place is not None and len(data) <= place.size else 0

    def _buffer(self, view: Bytes) -> int:
        buffer = self.find(view)
        if not buffer:
            general_failure(f"{len(view)} bytes that are no memory of {self._connection.place}, expected a view of it")
        return buffer

    def _forget(self, place: _Place) -> None:
        del self._places[place.start]
        self._releases.add(place.buffer)


def _parts(buffer: int, view: Bytes) -> Iterator[wire.StoreBufferRequest]:
    yield wire.StoreBufferRequest(buffer=buffer)
    for chunk in chunks_of([view]):
        yield wire.StoreBufferRequest(chunk=chunk)
