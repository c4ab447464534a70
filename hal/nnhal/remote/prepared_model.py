"""IPreparedModel from afar."""

from __future__ import annotations

from nnhal.codec import config_to_wire, request_to_wire, result_from_wire
from nnhal.remote.burst import RemoteBurst
from nnhal.remote.calls import Calls
from nnhal.remote.execution import RemoteExecution
from nnhal.types import NO_DEADLINE, ExecutionConfig, ExecutionResult, Request
from nnhal.v1 import prepared_model_pb2 as wire
from nnhal.v1 import prepared_model_pb2_grpc

PLAIN = ExecutionConfig()


class RemotePreparedModel:
    """A prepared model of this session. Released over there by ``release``, or with the session."""

    def __init__(self, calls: Calls, handle: int) -> None:
        self._calls = calls
        self._stub = prepared_model_pb2_grpc.PreparedModelServiceStub(calls.rpc)
        self.handle = handle

    def execute(
        self, request: Request, config: ExecutionConfig = PLAIN, deadline_ns: int = NO_DEADLINE
    ) -> ExecutionResult:
        """executeSynchronouslyWithConfig."""
        message = wire.PreparedModelServiceExecuteSynchronouslyWithConfigRequest(
            prepared_model=self.handle,
            request=request_to_wire(request, self._calls.issue),
            config=config_to_wire(config),
            deadline_ns=deadline_ns,
        )
        return result_from_wire(self._calls.call(self._stub.ExecuteSynchronouslyWithConfig, message).result)

    def create_reusable_execution(self, request: Request, config: ExecutionConfig = PLAIN) -> RemoteExecution:
        """createReusableExecution."""
        message = wire.CreateReusableExecutionRequest(
            prepared_model=self.handle,
            request=request_to_wire(request, self._calls.issue),
            config=config_to_wire(config),
        )
        answer = self._calls.call(self._stub.CreateReusableExecution, message)
        return RemoteExecution(self._calls, answer.execution)

    def configure_execution_burst(self) -> RemoteBurst:
        """configureExecutionBurst, with its channel."""
        message = wire.ConfigureExecutionBurstRequest(prepared_model=self.handle)
        answer = self._calls.call(self._stub.ConfigureExecutionBurst, message)
        return RemoteBurst(self._calls, answer.burst, self._calls.take_channel(answer.channel_descriptor_id))

    def release(self) -> None:
        """Give it up; bursts and executions made from it still work."""
        self._calls.release(self._stub.Release, wire.PreparedModelServiceReleaseRequest(prepared_model=self.handle))
