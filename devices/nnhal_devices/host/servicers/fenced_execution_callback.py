"""FencedExecutionCallbackService: IFencedExecutionCallback."""

from __future__ import annotations

import grpc

from nnhal.codec import info_to_wire
from nnhal.v1 import fenced_execution_callback_pb2 as wire
from nnhal.v1 import fenced_execution_callback_pb2_grpc
from nnhal_devices.host.sessions.client_session import ClientSessions
from nnhal_hosting.rpc import answers


class FencedExecutionCallbackServicer(fenced_execution_callback_pb2_grpc.FencedExecutionCallbackServiceServicer):
    """IFencedExecutionCallback over gRPC."""

    def __init__(self, clients: ClientSessions) -> None:
        self._clients = clients

    @answers
    def GetExecutionInfo(
        self, request: wire.GetExecutionInfoRequest, context: grpc.ServicerContext
    ) -> wire.GetExecutionInfoResponse:
        return info_to_wire(self._clients.of(context).callback(request.callback).info())

    @answers
    def Release(
        self, request: wire.FencedExecutionCallbackServiceReleaseRequest, context: grpc.ServicerContext
    ) -> wire.FencedExecutionCallbackServiceReleaseResponse:
        self._clients.of(context).release(request.callback)
        return wire.FencedExecutionCallbackServiceReleaseResponse()
