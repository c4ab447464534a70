"""BufferService: IBuffer."""

from __future__ import annotations

import grpc

from nnhal.codec import memory_from_wire
from nnhal.v1 import buffer_pb2 as wire
from nnhal.v1 import buffer_pb2_grpc
from nnhal_devices.host.sessions.client_session import ClientSessions
from nnhal_hosting.rpc import answers


class BufferServicer(buffer_pb2_grpc.BufferServiceServicer):
    """IBuffer over gRPC."""

    def __init__(self, clients: ClientSessions) -> None:
        self._clients = clients

    @answers
    def CopyFrom(self, request: wire.CopyFromRequest, context: grpc.ServicerContext) -> wire.CopyFromResponse:
        client = self._clients.of(context)
        buffer = client.buffer(request.buffer)
        if request.empty:
            buffer.become_empty(tuple(request.empty))
        else:
            buffer.copy_from(memory_from_wire(request.src, client.descriptors.get), tuple(request.dimensions))
        return wire.CopyFromResponse()

    @answers
    def CopyTo(self, request: wire.CopyToRequest, context: grpc.ServicerContext) -> wire.CopyToResponse:
        client = self._clients.of(context)
        buffer = client.buffer(request.buffer)
        if request.dimensions_only:
            return wire.CopyToResponse(dimensions=buffer.held_dimensions)
        buffer.copy_to(memory_from_wire(request.dst, client.descriptors.get))
        return wire.CopyToResponse()

    @answers
    def Release(
        self, request: wire.BufferServiceReleaseRequest, context: grpc.ServicerContext
    ) -> wire.BufferServiceReleaseResponse:
        self._clients.of(context).release(request.buffer)
        return wire.BufferServiceReleaseResponse()
