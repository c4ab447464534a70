"""Memory for certain inputs and outputs of loaded models: a device's own buffer if possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnhal.arrays import Array
from nnhal.codec import memory_from_wire, memory_to_wire
from nnhal.contexts import Closing
from nnhal.memory import create_ashmem, open_pool
from nnhal.remote.calls import Calls
from nnhal.types import Memory
from nnhal.types.layout import Dimensions
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import framework_pb2_grpc
from nnhal_client.tensors import ReservedDimensions, first_of, growing_to_wire, opened, room_for


@dataclass(frozen=True, slots=True)
class MemoryRole:
    """One use of memory, by a loaded model of the session. ``Model.input_role`` and ``output_role`` make them."""

    model: str
    is_output: bool
    index: int
    probability: float = 1.0


class DomainMemory(Closing):
    """Memory in which values stay between runs, on the device that uses them if possible. Use as a context.

    ``device`` names the device whose own buffer it is; it is empty for shared memory of the host, which ``host`` then
    is. It holds values once some were copied to it or a run has written it, and none after that has failed or the
    device has died. Safe to use from several threads, but a copy while a run writes the memory may have some old and
    some new values.
    """

    def __init__(
        self,
        calls: Calls,
        stub: framework_pb2_grpc.FrameworkServiceStub,
        roles: Sequence[MemoryRole],
        dimensions: ReservedDimensions,
    ) -> None:
        """Raises HalError: INVALID_ARGUMENT if roles do not agree, GENERAL_FAILURE if no device has such memory. Raises
        ValueError if a range is none.
        """
        room_for(dimensions)  # which checks the ranges
        self._calls = calls
        self._stub = stub
        request = wire.AllocateMemoryRequest(
            roles=[
                wire.MemoryRole(model=r.model, is_output=r.is_output, index=r.index, probability=r.probability)
                for r in roles
            ],
            dimensions=opened(dimensions),
            growing=growing_to_wire(dimensions),
        )
        answer = calls.call(stub.AllocateMemory, request)
        self.handle = answer.memory
        self.device = answer.device
        self.host: Memory | None = memory_from_wire(answer.host, calls.take) if answer.HasField("host") else None
        if any(not isinstance(length, int) and length[0] == 0 for length in dimensions):
            self._become_empty(first_of(dimensions))

    def copy_from(self, source: Array | Memory | DomainMemory, dimensions: Dimensions = ()) -> None:
        """Copy all values from the source, which has exactly as many bytes.

        An array, which may be empty if the memory grows, and other memory bring their dimensions. Shared memory has
        ``dimensions``, by default those that this memory was allocated with. Raises HalError if sizes or dimensions do
        not agree, the source holds no values, or a device refuses; then no values are held.
        """
        if isinstance(source, np.ndarray):
            if not source.size:
                self._become_empty(source.shape)
                return
            dimensions, source = dimensions or source.shape, _staged(source)
        self._copy(self._end(source), wire.MemoryEnd(memory=self.handle), dimensions)

    def copy_to(self, destination: Array | Memory | DomainMemory) -> None:
        """Copy all values to a destination of exactly as many bytes. Raises as ``copy_from``."""
        if not isinstance(destination, np.ndarray):
            self._copy(wire.MemoryEnd(memory=self.handle), self._end(destination))
            return
        staging = create_ashmem(destination.nbytes, "nnhal-copy")
        self._copy(wire.MemoryEnd(memory=self.handle), self._end(staging))
        content = open_pool(staging, writable=False).read(0, destination.nbytes)
        destination[...] = content.view(destination.dtype).reshape(destination.shape)

    def close(self) -> None:
        """Release it; bindings that use it keep it. Harmless when repeated."""
        self._calls.release(self._stub.FreeMemory, wire.FreeMemoryRequest(memory=self.handle))

    def _become_empty(self, dimensions: Dimensions) -> None:
        destination = wire.MemoryEnd(memory=self.handle)
        self._calls.call(self._stub.CopyMemory, wire.CopyMemoryRequest(destination=destination, empty=dimensions))

    def _copy(self, source: wire.MemoryEnd, destination: wire.MemoryEnd, dimensions: Dimensions = ()) -> None:
        request = wire.CopyMemoryRequest(source=source, destination=destination, dimensions=dimensions)
        self._calls.call(self._stub.CopyMemory, request)

    def _end(self, memory: Memory | DomainMemory) -> wire.MemoryEnd:
        if isinstance(memory, DomainMemory):
            return wire.MemoryEnd(memory=memory.handle)
        return wire.MemoryEnd(host=memory_to_wire(memory, self._calls.issue))


def _staged(array: Array) -> Memory:
    """Shared memory with the bytes of an array. Raises ValueError if the array has none."""
    memory = create_ashmem(array.nbytes, "nnhal-copy")
    open_pool(memory, writable=True).write(0, np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return memory
