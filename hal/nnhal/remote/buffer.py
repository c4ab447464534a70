"""The proxy of a device's IBuffer."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.codec import memory_to_wire
from nnhal.errors import HalError, general_failure
from nnhal.remote.calls import Calls
from nnhal.types import ErrorStatus, Memory
from nnhal.types.layout import Dimensions
from nnhal.v1 import buffer_pb2 as wire
from nnhal.v1 import buffer_pb2_grpc


class RemoteBuffer:
    """A buffer that the device owns. Requests name it by ``token``. Released by ``release`` or with the session."""

    def __init__(self, calls: Calls, handle: int, token: int) -> None:
        """Raises as ``Calls.new_object``."""
        self._calls = calls
        self._stub = buffer_pb2_grpc.BufferServiceStub(calls.rpc)
        self.handle = calls.new_object("buffer", handle)
        self.token = calls.new_object("token", token)

    @property
    def gone(self) -> bool:
        """Return whether its session has ended or its device is dead."""
        return self._calls.hung_up

    def copy_from(self, source: Memory, dimensions: Sequence[int] = ()) -> None:
        """Fill it (copyFrom). ``dimensions`` may be empty if the buffer's own are known."""
        message = wire.CopyFromRequest(
            buffer=self.handle, src=memory_to_wire(source, self._calls.issue), dimensions=dimensions
        )
        self._calls.call(self._stub.CopyFrom, message)

    def empty(self, dimensions: Sequence[int]) -> None:
        """Fill it with an empty value, one of whose dimensions is 0. Raises GENERAL_FAILURE if the device has none."""
        if not self._calls.has_lengths_by_run:
            general_failure(f"{self._calls.place} has no empty values")
        self._calls.call(self._stub.CopyFrom, wire.CopyFromRequest(buffer=self.handle, empty=dimensions))

    def dimensions(self) -> Dimensions | None:
        """The dimensions of the value that it holds, 0 for an empty axis; None if it is uninitialised."""
        try:
            answer = self._calls.call(self._stub.CopyTo, wire.CopyToRequest(buffer=self.handle, dimensions_only=True))
        except HalError as error:
            if error.status != ErrorStatus.GENERAL_FAILURE:
                raise
            return None
        return tuple(answer.dimensions)

    @property
    def reports_dimensions(self) -> bool:
        return self._calls.has_lengths_by_run

    def copy_to(self, destination: Memory) -> None:
        """Copy it out (copyTo)."""
        message = wire.CopyToRequest(buffer=self.handle, dst=memory_to_wire(destination, self._calls.issue))
        self._calls.call(self._stub.CopyTo, message)

    def release(self) -> None:
        """Release it. Executions that use it keep its memory alive."""
        request, made = wire.BufferServiceReleaseRequest(buffer=self.handle), ("buffer", self.handle)
        self._calls.release(self._stub.Release, request, made, ("token", self.token))
