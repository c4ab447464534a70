"""Fenced executions: launched for a call of gRPC, and FencedExecutionCallbackService: IFencedExecutionCallback."""

from __future__ import annotations

from collections.abc import Sequence

import grpc

from nnhal.codec import info_to_wire
from nnhal.codec.bounds import MAX_FENCES, at_most
from nnhal.errors import HalError
from nnhal.fence import Fence, name_fences
from nnhal.v1 import fenced_execution_callback_pb2 as wire
from nnhal.v1 import fenced_execution_callback_pb2_grpc
from nnhal.v1.prepared_model_pb2 import FencedExecutionResult
from nnhal_devices.host.runs.execution import Execution
from nnhal_devices.host.runs.launcher import Launcher, fences_from, start
from nnhal_devices.host.runs.launches import FencedExecutionCallback
from nnhal_devices.host.sessions.client_session import ClientSession, ClientSessions
from nnhal_hosting.rpc import answers


def fences_of(client: ClientSession, numbers: Sequence[int]) -> list[Fence]:
    """The fences that a call names. Raises INVALID_ARGUMENT."""
    known = at_most(MAX_FENCES, numbers, "fences to wait for")
    fences = fences_from([client.descriptors.get(number) for number in known])
    name_fences(fences, numbers)
    return fences


def launch(
    launcher: Launcher,
    client: ClientSession,
    execution: Execution,
    fences: Sequence[Fence],
    deadline_ns: int,
    duration_ns: int,
) -> FencedExecutionResult:
    """Launch an execution and answer with its callback and its fence. Raises HalError."""

    def answer(callback: FencedExecutionCallback, fence: Fence | None) -> FencedExecutionResult:
        handle = client.add(callback)
        try:
            number = client.descriptors.offer(fence.descriptor, owner=handle) if fence else 0
        except HalError:
            client.release(handle)
            raise
        return FencedExecutionResult(callback=handle, sync_fence_descriptor_id=number)

    answered, launched = launcher.launch(execution, fences, deadline_ns, duration_ns, client, answer)
    if launched is not None:
        start(launched)
    return answered


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
