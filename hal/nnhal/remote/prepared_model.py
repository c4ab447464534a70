"""The proxy of a device's IPreparedModel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnhal.codec import request_to_wire
from nnhal.fence import Fence
from nnhal.remote.answers import checked_result, request_dimensions, require_handle
from nnhal.remote.burst import RemoteBurst
from nnhal.remote.calls import Calls
from nnhal.remote.config import bounded_config_to_wire
from nnhal.remote.execution import RemoteExecution
from nnhal.remote.fenced import RemoteFencedExecution, issue_fences, launched
from nnhal.remote.watch import Cancellable
from nnhal.types import NO_DEADLINE, ExecutionConfig, ExecutionResult, Request
from nnhal.types.layout import Dimensions
from nnhal.v1 import prepared_model_pb2 as wire
from nnhal.v1 import prepared_model_pb2_grpc

PLAIN = ExecutionConfig()


class RemotePreparedModel:
    """A prepared model of this session. Released by ``release`` or with the session.

    Loop timeouts above the maximum count as the maximum.
    """

    def __init__(self, calls: Calls, handle: int, outputs: Sequence[Dimensions] = ()) -> None:
        """``outputs`` are the dimensions of the model's outputs, if the model is known. Raises as ``new_object``."""
        self.calls = calls
        self._outputs = outputs
        self._stub = prepared_model_pb2_grpc.PreparedModelServiceStub(calls.rpc)
        self.handle = calls.new_object("prepared model", handle)

    @property
    def gone(self) -> bool:
        """Return whether its session has ended or its device is dead."""
        return self.calls.hung_up

    @property
    def is_given_up(self) -> bool:
        """Return whether its device was given up (``RemoteDevice.give_up``). Costs no system call."""
        return self.calls.is_given_up

    @property
    def is_asleep(self) -> bool:
        """Return whether its device was given up, and may write to the memory of its executions when it continues."""
        return self.calls.is_asleep

    def execute(
        self,
        request: Request,
        config: ExecutionConfig = PLAIN,
        deadline_ns: int = NO_DEADLINE,
        begun: Callable[[Cancellable], object] = lambda _: None,
    ) -> ExecutionResult:
        """Execute a request and wait for the result (executeSynchronouslyWithConfig). ``begun`` is called as by
        ``Calls.execute``.
        """
        message = wire.PreparedModelServiceExecuteSynchronouslyWithConfigRequest(
            prepared_model=self.handle,
            request=request_to_wire(request, self.calls.issue),
            config=bounded_config_to_wire(config),
            deadline_ns=deadline_ns,
        )
        answer = self.calls.execute(self._stub.ExecuteSynchronouslyWithConfig, message, begun)
        return checked_result(answer.result, self._output_dimensions(request), self.calls.place)

    def execute_fenced(
        self,
        request: Request,
        wait_for: Sequence[Fence] = (),
        config: ExecutionConfig = PLAIN,
        deadline_ns: int = NO_DEADLINE,
        duration_ns: int = NO_DEADLINE,
    ) -> RemoteFencedExecution:
        """Launch a request (executeFencedWithConfig). It starts when all fences have signalled."""
        message = wire.PreparedModelServiceExecuteFencedWithConfigRequest(
            prepared_model=self.handle,
            request=request_to_wire(request, self.calls.issue),
            wait_for_descriptor_ids=issue_fences(self.calls, wait_for),
            config=bounded_config_to_wire(config),
            deadline_ns=deadline_ns,
            duration_ns=duration_ns,
        )
        return launched(self.calls, self.calls.call(self._stub.ExecuteFencedWithConfig, message).result)

    def create_reusable_execution(self, request: Request, config: ExecutionConfig = PLAIN) -> RemoteExecution:
        """Create a reusable execution of a request (createReusableExecution)."""
        message = wire.CreateReusableExecutionRequest(
            prepared_model=self.handle,
            request=request_to_wire(request, self.calls.issue),
            config=bounded_config_to_wire(config),
        )
        answer = self.calls.call(self._stub.CreateReusableExecution, message)
        return RemoteExecution(self.calls, answer.execution, self._output_dimensions(request))

    def configure_execution_burst(self) -> RemoteBurst:
        """Make a burst with its channel (configureExecutionBurst)."""
        message = wire.ConfigureExecutionBurstRequest(prepared_model=self.handle)
        answer = self.calls.call(self._stub.ConfigureExecutionBurst, message)
        handle = require_handle(answer.burst, "burst", self.calls.place)
        channel = self.calls.take_channel(answer.channel_descriptor_id)
        return RemoteBurst(self.calls, handle, channel, self._outputs)

    def release(self) -> None:
        """Release it. Bursts and executions made from it still work."""
        request = wire.PreparedModelServiceReleaseRequest(prepared_model=self.handle)
        self.calls.release(self._stub.Release, request, ("prepared model", self.handle))

    def _output_dimensions(self, request: Request) -> tuple[Dimensions, ...]:
        return request_dimensions(request, self._outputs)
