"""Calls that the remote objects do not make: older methods, and a burst without its channel."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.codec import config_to_wire, model_to_wire, request_to_wire, result_from_wire
from nnhal.fence import Fence
from nnhal.remote import RemoteFencedExecution, RemotePreparedModel
from nnhal.remote.calls import Calls
from nnhal.remote.fenced import issue_fences, launched
from nnhal.remote.preparation import prepared_handle
from nnhal.types import ExecutionConfig, ExecutionResult, Model, Request
from nnhal.v1 import burst_pb2 as burst_wire
from nnhal.v1 import burst_pb2_grpc, device_pb2, device_pb2_grpc, prepared_model_pb2_grpc, types_pb2
from nnhal.v1 import prepared_model_pb2 as prepared_wire


def prepare(calls: Calls, model: Model, deadline_ns: int) -> RemotePreparedModel:
    message = device_pb2.PrepareModelRequest(
        model=model_to_wire(model, calls.issue),
        preference=types_pb2.EXECUTION_PREFERENCE_SUSTAINED_SPEED,
        priority=types_pb2.PRIORITY_HIGH,
        deadline_ns=deadline_ns,
        token=bytes(32),
    )
    events = calls.stream(device_pb2_grpc.DeviceServiceStub(calls.rpc).PrepareModel, message)
    return RemotePreparedModel(calls, prepared_handle(events, calls.place))


def execute(
    prepared: RemotePreparedModel, request: Request, config: ExecutionConfig, deadline_ns: int
) -> ExecutionResult:
    """executeSynchronously."""
    calls = prepared.calls
    message = prepared_wire.PreparedModelServiceExecuteSynchronouslyRequest(
        prepared_model=prepared.handle,
        request=request_to_wire(request, calls.issue),
        measure_timing=config.measure_timing,
        deadline_ns=deadline_ns,
        loop_timeout_duration_ns=config.loop_timeout_duration_ns,
    )
    stub = prepared_model_pb2_grpc.PreparedModelServiceStub(calls.rpc)
    return result_from_wire(calls.call(stub.ExecuteSynchronously, message).result)


def execute_fenced(
    prepared: RemotePreparedModel,
    request: Request,
    fences: Sequence[Fence],
    config: ExecutionConfig,
    deadline_ns: int,
    duration_ns: int,
) -> RemoteFencedExecution:
    calls = prepared.calls
    message = prepared_wire.PreparedModelServiceExecuteFencedRequest(
        prepared_model=prepared.handle,
        request=request_to_wire(request, calls.issue),
        wait_for_descriptor_ids=issue_fences(calls, fences),
        measure_timing=config.measure_timing,
        deadline_ns=deadline_ns,
        loop_timeout_duration_ns=config.loop_timeout_duration_ns,
        duration_ns=duration_ns,
    )
    stub = prepared_model_pb2_grpc.PreparedModelServiceStub(calls.rpc)
    return launched(calls, calls.call(stub.ExecuteFenced, message).result)


class WireBurst:
    """A burst by its handle, over gRPC."""

    def __init__(self, calls: Calls, handle: int) -> None:
        self._calls = calls
        self._stub = burst_pb2_grpc.BurstServiceStub(calls.rpc)
        self._handle = handle

    def execute(
        self, request: Request, tokens: Sequence[int], config: ExecutionConfig, deadline_ns: int
    ) -> ExecutionResult:
        """executeSynchronouslyWithConfig."""
        message = burst_wire.BurstServiceExecuteSynchronouslyWithConfigRequest(
            burst=self._handle,
            request=request_to_wire(request, self._calls.issue),
            memory_identifier_tokens=tokens,
            config=config_to_wire(config),
            deadline_ns=deadline_ns,
        )
        return result_from_wire(self._calls.call(self._stub.ExecuteSynchronouslyWithConfig, message).result)

    def execute_plain(
        self, request: Request, tokens: Sequence[int], config: ExecutionConfig, deadline_ns: int
    ) -> ExecutionResult:
        """executeSynchronously."""
        message = burst_wire.BurstServiceExecuteSynchronouslyRequest(
            burst=self._handle,
            request=request_to_wire(request, self._calls.issue),
            memory_identifier_tokens=tokens,
            measure_timing=config.measure_timing,
            deadline_ns=deadline_ns,
            loop_timeout_duration_ns=config.loop_timeout_duration_ns,
        )
        return result_from_wire(self._calls.call(self._stub.ExecuteSynchronously, message).result)

    def release_memory_resource(self, token: int) -> object:
        message = burst_wire.ReleaseMemoryResourceRequest(burst=self._handle, memory_identifier_token=token)
        return self._calls.call(self._stub.ReleaseMemoryResource, message)

    def release(self) -> object:
        """Release the burst; its channel still works."""
        return self._calls.call(self._stub.Release, burst_wire.BurstServiceReleaseRequest(burst=self._handle))
