"""BufferService and FencedExecutionCallbackService: IBuffer and IFencedExecutionCallback.

A device that allocates no buffers and launches nothing with a fence has no such objects; every handle is unknown.
"""

from __future__ import annotations

import grpc

from nnhal.errors import invalid_argument
from nnhal.rpc import answers
from nnhal.v1 import buffer_pb2, buffer_pb2_grpc
from nnhal.v1 import fenced_execution_callback_pb2 as callback_pb2
from nnhal.v1 import fenced_execution_callback_pb2_grpc as callback_pb2_grpc
from nnhal_devices.host.client import Clients


class BufferServicer(buffer_pb2_grpc.BufferServiceServicer):
    """IBuffer over gRPC."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    @answers
    def CopyFrom(
        self, request: buffer_pb2.CopyFromRequest, context: grpc.ServicerContext
    ) -> buffer_pb2.CopyFromResponse:
        """See buffer.proto."""
        self._clients.of(context)
        invalid_argument(f"buffer {request.buffer} does not exist in this session")

    @answers
    def CopyTo(self, request: buffer_pb2.CopyToRequest, context: grpc.ServicerContext) -> buffer_pb2.CopyToResponse:
        """See buffer.proto."""
        self._clients.of(context)
        invalid_argument(f"buffer {request.buffer} does not exist in this session")

    @answers
    def Release(
        self, request: buffer_pb2.BufferServiceReleaseRequest, context: grpc.ServicerContext
    ) -> buffer_pb2.BufferServiceReleaseResponse:
        """See buffer.proto."""
        self._clients.of(context).release(request.buffer)
        return buffer_pb2.BufferServiceReleaseResponse()


class CallbackServicer(callback_pb2_grpc.FencedExecutionCallbackServiceServicer):
    """IFencedExecutionCallback over gRPC."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    @answers
    def GetExecutionInfo(
        self, request: callback_pb2.GetExecutionInfoRequest, context: grpc.ServicerContext
    ) -> callback_pb2.GetExecutionInfoResponse:
        """See fenced_execution_callback.proto."""
        self._clients.of(context)
        invalid_argument(f"callback {request.callback} does not exist in this session")

    @answers
    def Release(
        self, request: callback_pb2.FencedExecutionCallbackServiceReleaseRequest, context: grpc.ServicerContext
    ) -> callback_pb2.FencedExecutionCallbackServiceReleaseResponse:
        """See fenced_execution_callback.proto."""
        self._clients.of(context).release(request.callback)
        return callback_pb2.FencedExecutionCallbackServiceReleaseResponse()
