"""A run that begins when fences have signalled, and signals one when it has ended."""

from __future__ import annotations

from contextlib import suppress

from nnhal.fence import Fence, FenceError
from nnhal.remote.calls import Calls
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import framework_pb2_grpc
from nnhal_client.core.binding_runs import BindingRuns
from nnhal_client.reports import RunReport


class LaunchedRun:
    """A launched run of a binding, of which ``wait`` tells the end."""

    def __init__(
        self,
        calls: Calls,
        stub: framework_pb2_grpc.FrameworkServiceStub,
        answer: wire.LaunchRunResponse,
        runs: BindingRuns,
    ) -> None:
        self._calls, self._stub, self._runs = calls, stub, runs
        self._handle = answer.launched
        number = answer.fence_descriptor_id
        self.fence = Fence(calls.take(number)) if number else None
        """Signals when the run has ended, and is in error if it has failed; None if it ended while it was launched."""

    def cancel(self) -> None:
        """Have it end as soon as possible: its fence is in error then. Raises HalError, TransportError."""
        self._calls.call(self._stub.CancelLaunchedRun, wire.CancelLaunchedRunRequest(launched=self._handle))

    def wait(self) -> RunReport:
        """Wait for its end, and return its report. To be called once. Raises as ``Binding.run``."""
        if self.fence is not None:
            with suppress(FenceError):  # the framework says better what was wrong
                self.fence.wait()
        answer = self._calls.call(self._stub.GetLaunchedRun, wire.GetLaunchedRunRequest(launched=self._handle))
        self._calls.release(self._stub.ReleaseLaunchedRun, wire.ReleaseLaunchedRunRequest(launched=self._handle))
        return self._runs.ended(answer)
