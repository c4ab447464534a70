"""BurstService: IBurst for clients that want no channel."""

from __future__ import annotations

import grpc

from nnhal.codec import config_from_wire, nanoseconds, request_from_wire, result_to_wire
from nnhal.types import ExecutionConfig
from nnhal.v1 import burst_pb2 as wire
from nnhal.v1 import burst_pb2_grpc, request_pb2
from nnhal_devices.host.sessions.client_session import ClientSessions
from nnhal_hosting.rpc import answers


class BurstServicer(burst_pb2_grpc.BurstServiceServicer):
    """IBurst over gRPC."""

    def __init__(self, clients: ClientSessions) -> None:
        self._clients = clients

    @answers
    def ExecuteSynchronously(
        self, request: wire.BurstServiceExecuteSynchronouslyRequest, context: grpc.ServicerContext
    ) -> wire.BurstServiceExecuteSynchronouslyResponse:
        config = ExecutionConfig(request.measure_timing, nanoseconds(request, "loop_timeout_duration_ns"))
        return wire.BurstServiceExecuteSynchronouslyResponse(result=self._execute(request, config, context))

    @answers
    def ExecuteSynchronouslyWithConfig(
        self, request: wire.BurstServiceExecuteSynchronouslyWithConfigRequest, context: grpc.ServicerContext
    ) -> wire.BurstServiceExecuteSynchronouslyWithConfigResponse:
        config = config_from_wire(request.config)
        return wire.BurstServiceExecuteSynchronouslyWithConfigResponse(result=self._execute(request, config, context))

    @answers
    def ReleaseMemoryResource(
        self, request: wire.ReleaseMemoryResourceRequest, context: grpc.ServicerContext
    ) -> wire.ReleaseMemoryResourceResponse:
        self._clients.of(context).burst(request.burst).release_memory(request.memory_identifier_token)
        return wire.ReleaseMemoryResourceResponse()

    @answers
    def Release(
        self, request: wire.BurstServiceReleaseRequest, context: grpc.ServicerContext
    ) -> wire.BurstServiceReleaseResponse:
        self._clients.of(context).release(request.burst)
        return wire.BurstServiceReleaseResponse()

    def _execute(
        self,
        request: wire.BurstServiceExecuteSynchronouslyRequest | wire.BurstServiceExecuteSynchronouslyWithConfigRequest,
        config: ExecutionConfig,
        context: grpc.ServicerContext,
    ) -> request_pb2.ExecutionResult:
        client = self._clients.of(context)
        result, _ = client.burst(request.burst).execute(
            request_from_wire(request.request, client.descriptors.get),
            request.memory_identifier_tokens,
            config,
            nanoseconds(request, "deadline_ns"),
            context.is_active,
        )
        return result_to_wire(result)
