"""IExecution from afar."""

from __future__ import annotations

from nnhal.codec import result_from_wire
from nnhal.remote.calls import Calls
from nnhal.types import NO_DEADLINE, ExecutionResult
from nnhal.v1 import burst_pb2, execution_pb2_grpc
from nnhal.v1 import execution_pb2 as wire


class RemoteExecution:
    """A reusable execution of this session. Released over there by ``release``, or with the session."""

    def __init__(self, calls: Calls, handle: int) -> None:
        self._calls = calls
        self._stub = execution_pb2_grpc.ExecutionServiceStub(calls.rpc)
        self.handle = handle
        self.run_without_deadline = burst_run(handle, NO_DEADLINE)

    def execute(self, deadline_ns: int = NO_DEADLINE) -> ExecutionResult:
        """executeSynchronously."""
        message = wire.ExecutionServiceExecuteSynchronouslyRequest(execution=self.handle, deadline_ns=deadline_ns)
        return result_from_wire(self._calls.call(self._stub.ExecuteSynchronously, message).result)

    def release(self) -> None:
        """Give it up."""
        self._calls.release(self._stub.Release, wire.ExecutionServiceReleaseRequest(execution=self.handle))


def burst_run(handle: int, deadline_ns: int) -> bytes:
    """The datagram that runs an execution on a burst's channel."""
    run = burst_pb2.BurstRun(execution=handle, deadline_ns=deadline_ns)
    return burst_pb2.BurstCall(run=run).SerializeToString()
