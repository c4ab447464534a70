"""The proxy of a device's IExecution."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnhal.codec.lengths import Lengths, lengths_to_wire
from nnhal.descriptor import Descriptor
from nnhal.fence import Fence
from nnhal.remote.answers import checked_result
from nnhal.remote.calls import Calls
from nnhal.remote.fenced import RemoteFencedExecution, issue_fences, launched
from nnhal.remote.stage import RemoteStage, StageDescriptors, wire_step
from nnhal.remote.watch import Cancellable
from nnhal.types import NO_DEADLINE, ExecutionResult, RunUsage
from nnhal.types.layout import Dimensions
from nnhal.v1 import burst_pb2, execution_pb2_grpc
from nnhal.v1 import execution_pb2 as wire


class RemoteExecution:
    """A reusable execution of this session. Released by ``release`` or with the session.

    ``outputs`` are the dimensions of its outputs as far as model and request give them.
    """

    def __init__(self, calls: Calls, handle: int, outputs: Sequence[Dimensions]) -> None:
        """Raises as ``Calls.new_object``."""
        self._calls = calls
        self._stub = execution_pb2_grpc.ExecutionServiceStub(calls.rpc)
        self.handle = calls.new_object("execution", handle)
        self.outputs = outputs
        self.run_without_deadline = burst_run(handle, NO_DEADLINE)

    def execute(
        self, deadline_ns: int = NO_DEADLINE, begun: Callable[[Cancellable], object] = lambda _: None
    ) -> ExecutionResult:
        """Run it once and wait for the result (executeSynchronously). ``begun`` is called as by ``Calls.execute``."""
        message = wire.ExecutionServiceExecuteSynchronouslyRequest(execution=self.handle, deadline_ns=deadline_ns)
        answer = self._calls.execute(self._stub.ExecuteSynchronously, message, begun)
        return checked_result(answer.result, self.outputs, self._calls.place)

    def execute_fenced(
        self, wait_for: Sequence[Fence] = (), deadline_ns: int = NO_DEADLINE, duration_ns: int = NO_DEADLINE
    ) -> RemoteFencedExecution:
        """Launch it (executeFenced). It starts when all fences have signalled."""
        message = wire.ExecutionServiceExecuteFencedRequest(
            execution=self.handle,
            wait_for_descriptor_ids=issue_fences(self._calls, wait_for),
            deadline_ns=deadline_ns,
            duration_ns=duration_ns,
        )
        return launched(self._calls, self._calls.call(self._stub.ExecuteFenced, message).result)

    def open_run_channel(self) -> Descriptor:
        """Open a run channel, on which the process that gets this end can run it until it is released."""
        message = wire.OpenRunChannelRequest(execution=self.handle)
        return self._calls.take_end(self._calls.call(self._stub.OpenRunChannel, message).channel_descriptor_id)

    def run_channel_usage(self, close: bool = False, timeout: float | None = None) -> RunUsage:
        """Return the counts of its direct runs. With ``close`` the run channel is closed. ``timeout`` is in seconds."""
        message = wire.GetRunChannelUsageRequest(execution=self.handle, close=close)
        answer = self._calls.call(self._stub.GetRunChannelUsage, message, timeout)
        return RunUsage(answer.runs, answer.failed_runs, answer.duration_ns)

    def wire(self, step: int, name: str, descriptors: StageDescriptors) -> RemoteStage:
        """Make it the stage of a step in a wired chain. Raises as ``wire_step``."""
        return wire_step(self._calls, self.handle, step, name, descriptors)

    def release(self) -> None:
        request = wire.ExecutionServiceReleaseRequest(execution=self.handle)
        self._calls.release(self._stub.Release, request, ("execution", self.handle))


def burst_run(handle: int, deadline_ns: int, lengths: Lengths = ()) -> bytes:
    """Make the datagram that runs an execution on a burst's channel; ``lengths`` are those of inputs by position."""
    run = burst_pb2.BurstRun(execution=handle, deadline_ns=deadline_ns, lengths=lengths_to_wire(lengths))
    return burst_pb2.BurstCall(run=run).SerializeToString()
