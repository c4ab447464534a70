"""PreparedModelService: IPreparedModel."""

from __future__ import annotations

import grpc

from nnhal.codec import config_from_wire, nanoseconds, request_from_wire, result_to_wire
from nnhal.types import ExecutionConfig, ExecutionResult
from nnhal.v1 import prepared_model_pb2 as wire
from nnhal.v1 import prepared_model_pb2_grpc
from nnhal_devices.host.channels.burst_channel import serve_burst
from nnhal_devices.host.runs.burst import Burst
from nnhal_devices.host.runs.execution import Wanted
from nnhal_devices.host.runs.launcher import Launcher
from nnhal_devices.host.servicers.fenced_execution import fences_of, launch
from nnhal_devices.host.sessions.client_session import ClientSession, ClientSessions
from nnhal_hosting.rpc import answers


class PreparedModelServicer(prepared_model_pb2_grpc.PreparedModelServiceServicer):
    """IPreparedModel over gRPC."""

    def __init__(self, launcher: Launcher, clients: ClientSessions) -> None:
        self._launcher = launcher
        self._clients = clients

    @answers
    def ExecuteSynchronously(
        self, request: wire.PreparedModelServiceExecuteSynchronouslyRequest, context: grpc.ServicerContext
    ) -> wire.PreparedModelServiceExecuteSynchronouslyResponse:
        config = ExecutionConfig(request.measure_timing, nanoseconds(request, "loop_timeout_duration_ns"))
        result = _execute(self._clients.of(context), request, config, context.is_active)
        return wire.PreparedModelServiceExecuteSynchronouslyResponse(result=result_to_wire(result))

    @answers
    def ExecuteSynchronouslyWithConfig(
        self, request: wire.PreparedModelServiceExecuteSynchronouslyWithConfigRequest, context: grpc.ServicerContext
    ) -> wire.PreparedModelServiceExecuteSynchronouslyWithConfigResponse:
        config = config_from_wire(request.config)
        result = _execute(self._clients.of(context), request, config, context.is_active)
        return wire.PreparedModelServiceExecuteSynchronouslyWithConfigResponse(result=result_to_wire(result))

    @answers
    def ExecuteFenced(
        self, request: wire.PreparedModelServiceExecuteFencedRequest, context: grpc.ServicerContext
    ) -> wire.PreparedModelServiceExecuteFencedResponse:
        config = ExecutionConfig(request.measure_timing, nanoseconds(request, "loop_timeout_duration_ns"))
        result = self._launch(request, config, self._clients.of(context))
        return wire.PreparedModelServiceExecuteFencedResponse(result=result)

    @answers
    def ExecuteFencedWithConfig(
        self, request: wire.PreparedModelServiceExecuteFencedWithConfigRequest, context: grpc.ServicerContext
    ) -> wire.PreparedModelServiceExecuteFencedWithConfigResponse:
        result = self._launch(request, config_from_wire(request.config), self._clients.of(context))
        return wire.PreparedModelServiceExecuteFencedWithConfigResponse(result=result)

    @answers
    def ConfigureExecutionBurst(
        self, request: wire.ConfigureExecutionBurstRequest, context: grpc.ServicerContext
    ) -> wire.ConfigureExecutionBurstResponse:
        client = self._clients.of(context)
        burst = Burst(client.prepared_model(request.prepared_model))
        handle = client.add(burst)
        try:
            number = serve_burst(burst, handle, client)
        except BaseException:
            client.release(handle)
            raise
        return wire.ConfigureExecutionBurstResponse(burst=handle, channel_descriptor_id=number)

    @answers
    def CreateReusableExecution(
        self, request: wire.CreateReusableExecutionRequest, context: grpc.ServicerContext
    ) -> wire.CreateReusableExecutionResponse:
        client = self._clients.of(context)
        prepared = client.prepared_model(request.prepared_model)
        execution = prepared.bind(
            request_from_wire(request.request, client.descriptors.get), config_from_wire(request.config)
        )
        return wire.CreateReusableExecutionResponse(execution=client.add(execution))

    @answers
    def Release(
        self, request: wire.PreparedModelServiceReleaseRequest, context: grpc.ServicerContext
    ) -> wire.PreparedModelServiceReleaseResponse:
        self._clients.of(context).release(request.prepared_model)
        return wire.PreparedModelServiceReleaseResponse()

    def _launch(
        self,
        request: wire.PreparedModelServiceExecuteFencedRequest
        | wire.PreparedModelServiceExecuteFencedWithConfigRequest,
        config: ExecutionConfig,
        client: ClientSession,
    ) -> wire.FencedExecutionResult:
        execution = client.prepared_model(request.prepared_model).bind(
            request_from_wire(request.request, client.descriptors.get), config, allow_unspecified_output=False
        )
        fences = fences_of(client, request.wait_for_descriptor_ids)
        deadline_ns, duration_ns = nanoseconds(request, "deadline_ns"), nanoseconds(request, "duration_ns")
        return launch(self._launcher, client, execution, fences, deadline_ns, duration_ns)


def _execute(
    client: ClientSession,
    request: wire.PreparedModelServiceExecuteSynchronouslyRequest
    | wire.PreparedModelServiceExecuteSynchronouslyWithConfigRequest,
    config: ExecutionConfig,
    is_wanted: Wanted,
) -> ExecutionResult:
    prepared = client.prepared_model(request.prepared_model)
    bound = prepared.bind(request_from_wire(request.request, client.descriptors.get), config)
    result, _ = bound.run(nanoseconds(request, "deadline_ns"), is_wanted)
    return result
