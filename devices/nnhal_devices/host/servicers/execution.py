"""ExecutionService: IExecution."""

from __future__ import annotations

import grpc

from nnhal.codec import nanoseconds, result_to_wire
from nnhal.v1 import execution_pb2 as wire
from nnhal.v1 import execution_pb2_grpc
from nnhal_devices.host.channels.launch_channel import serve_launches
from nnhal_devices.host.channels.run_channel import run_channel_of
from nnhal_devices.host.runs.launcher import Launcher
from nnhal_devices.host.servicers.fenced_execution import fences_of, launch
from nnhal_devices.host.sessions.client_session import ClientSessions
from nnhal_hosting.rpc import answers


class ExecutionServicer(execution_pb2_grpc.ExecutionServiceServicer):
    """IExecution over gRPC."""

    def __init__(self, launcher: Launcher, clients: ClientSessions) -> None:
        self._launcher = launcher
        self._clients = clients

    @answers
    def ExecuteSynchronously(
        self, request: wire.ExecutionServiceExecuteSynchronouslyRequest, context: grpc.ServicerContext
    ) -> wire.ExecutionServiceExecuteSynchronouslyResponse:
        execution = self._clients.of(context).execution(request.execution)
        result, _ = execution.run(nanoseconds(request, "deadline_ns"), context.is_active)
        return wire.ExecutionServiceExecuteSynchronouslyResponse(result=result_to_wire(result))

    @answers
    def ExecuteFenced(
        self, request: wire.ExecutionServiceExecuteFencedRequest, context: grpc.ServicerContext
    ) -> wire.ExecutionServiceExecuteFencedResponse:
        client = self._clients.of(context)
        execution = client.execution(request.execution)
        fences = fences_of(client, request.wait_for_descriptor_ids)
        deadline_ns, duration_ns = nanoseconds(request, "deadline_ns"), nanoseconds(request, "duration_ns")
        result = launch(self._launcher, client, execution, fences, deadline_ns, duration_ns)
        return wire.ExecutionServiceExecuteFencedResponse(result=result)

    @answers
    def OpenLaunchChannel(
        self, request: wire.OpenLaunchChannelRequest, context: grpc.ServicerContext
    ) -> wire.OpenLaunchChannelResponse:
        number = serve_launches(self._launcher, self._clients.of(context))
        return wire.OpenLaunchChannelResponse(channel_descriptor_id=number)

    @answers
    def OpenRunChannel(
        self, request: wire.OpenRunChannelRequest, context: grpc.ServicerContext
    ) -> wire.OpenRunChannelResponse:
        client = self._clients.of(context)
        number = run_channel_of(client, request.execution).open(client)
        return wire.OpenRunChannelResponse(channel_descriptor_id=number)

    @answers
    def GetRunChannelUsage(
        self, request: wire.GetRunChannelUsageRequest, context: grpc.ServicerContext
    ) -> wire.GetRunChannelUsageResponse:
        channel = run_channel_of(self._clients.of(context), request.execution)
        if request.close:
            channel.end()
        runs, failed_runs, duration_ns = channel.usage
        return wire.GetRunChannelUsageResponse(runs=runs, failed_runs=failed_runs, duration_ns=duration_ns)

    @answers
    def Release(
        self, request: wire.ExecutionServiceReleaseRequest, context: grpc.ServicerContext
    ) -> wire.ExecutionServiceReleaseResponse:
        self._clients.of(context).release(request.execution)
        return wire.ExecutionServiceReleaseResponse()
