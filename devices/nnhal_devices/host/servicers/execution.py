"""ExecutionService: IExecution."""

from __future__ import annotations

import grpc

from nnhal.codec import result_to_wire
from nnhal.errors import general_failure
from nnhal.rpc import answers
from nnhal.v1 import execution_pb2 as wire
from nnhal.v1 import execution_pb2_grpc
from nnhal_devices.host.client import Clients


class ExecutionServicer(execution_pb2_grpc.ExecutionServiceServicer):
    """IExecution over gRPC."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    @answers
    def ExecuteSynchronously(
        self, request: wire.ExecutionServiceExecuteSynchronouslyRequest, context: grpc.ServicerContext
    ) -> wire.ExecutionServiceExecuteSynchronouslyResponse:
        """See execution.proto."""
        result, _ = self._clients.of(context).execution(request.execution).run(request.deadline_ns)
        return wire.ExecutionServiceExecuteSynchronouslyResponse(result=result_to_wire(result))

    @answers
    def ExecuteFenced(
        self, request: wire.ExecutionServiceExecuteFencedRequest, context: grpc.ServicerContext
    ) -> wire.ExecutionServiceExecuteFencedResponse:
        """See execution.proto."""
        self._clients.of(context).execution(request.execution)
        general_failure("this device executes synchronously, reusably and in bursts; it has no fences yet")

    @answers
    def Release(
        self, request: wire.ExecutionServiceReleaseRequest, context: grpc.ServicerContext
    ) -> wire.ExecutionServiceReleaseResponse:
        """See execution.proto."""
        self._clients.of(context).release(request.execution)
        return wire.ExecutionServiceReleaseResponse()
