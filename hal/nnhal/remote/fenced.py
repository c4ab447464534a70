"""The proxies of a device's fenced executions."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.fence import Fence
from nnhal.remote.answers import checked_fence, checked_info, require_handle
from nnhal.remote.calls import Calls
from nnhal.types import FencedExecutionInfo
from nnhal.v1 import fenced_execution_callback_pb2 as wire
from nnhal.v1 import fenced_execution_callback_pb2_grpc, prepared_model_pb2


class RemoteFencedExecution:
    """A launched execution: its fence, None if it had ended already, and its IFencedExecutionCallback.

    The callback is released by ``release`` or with the session.
    """

    def __init__(self, calls: Calls, callback: int, fence: Fence | None) -> None:
        self._calls = calls
        self._stub = fenced_execution_callback_pb2_grpc.FencedExecutionCallbackServiceStub(calls.rpc)
        self.callback = callback
        self.fence = fence

    def info(self) -> FencedExecutionInfo:
        """Return how the execution ended (getExecutionInfo). Raises GENERAL_FAILURE until it has ended."""
        message = wire.GetExecutionInfoRequest(callback=self.callback)
        return checked_info(self._calls.call(self._stub.GetExecutionInfo, message), self._calls.place)

    def release(self) -> None:
        """Release the callback. The execution continues."""
        message = wire.FencedExecutionCallbackServiceReleaseRequest(callback=self.callback)
        self._calls.release(self._stub.Release, message)


def launched(calls: Calls, result: prepared_model_pb2.FencedExecutionResult) -> RemoteFencedExecution:
    """Check and decode the answer to a launch.

    Raises GENERAL_FAILURE if the answer is invalid, TransportError if the fence cannot be fetched.
    """
    callback, number = require_handle(result.callback, "callback", calls.place), result.sync_fence_descriptor_id
    return RemoteFencedExecution(calls, callback, checked_fence(calls.take(number), calls.place) if number else None)


def issue_fences(calls: Calls, fences: Sequence[Fence]) -> list[int]:
    """Return the ids of fences in a session. Raises TransportError."""
    return [calls.issue(fence.descriptor) for fence in fences]
