"""LaunchRun and what belongs to it: fenced runs of bindings."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import grpc

from nnhal.codec import nanoseconds
from nnhal.codec.bounds import MAX_FENCES, at_most
from nnhal.errors import HalError, invalid_argument
from nnhal.fence import Fence, FenceState, name_fences
from nnhal.types import ErrorStatus, Timing
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import request_pb2, types_pb2
from nnhal_hosting.rpc import answers
from nnhal_service.native.convert import gone_is_unavailable, insufficient_to_wire, report_to_wire
from nnhal_service.native.session import NativeSession, NativeSessions
from nnhal_service.runtime import OutputTooSmallError
from nnhal_service.runtime.run.launched_run import Ending, LaunchedRun


class LaunchServicer:
    """The part of FrameworkService (framework.proto) that launches."""

    _sessions: NativeSessions

    @answers
    def LaunchRun(self, request: wire.LaunchRunRequest, context: grpc.ServicerContext) -> wire.LaunchRunResponse:
        session = self._sessions.of(context)
        binding = session.binding(request.binding)
        numbers = request.wait_for_descriptor_ids
        fences = [_fence(session, number) for number in at_most(MAX_FENCES, numbers, "fences to wait for")]
        name_fences(fences, numbers)
        _require_no_error(fences)
        deadline_ns, duration_ns = nanoseconds(request, "deadline_ns"), nanoseconds(request, "duration_ns")
        session.admit_run()
        with ExitStack() as undo:
            with gone_is_unavailable():
                launched = binding.context.launch(fences, deadline_ns, duration_ns)
            # A launched run cannot be taken back: without a handle it runs to its end, and is then released.
            handle = session.own(launched, undo)
            number = session.descriptors.offer(launched.fence.descriptor, owner=handle)
            undo.pop_all()
        return wire.LaunchRunResponse(launched=handle, fence_descriptor_id=number)

    @answers
    def GetLaunchedRun(
        self, request: wire.GetLaunchedRunRequest, context: grpc.ServicerContext
    ) -> wire.GetLaunchedRunResponse:
        launched = self._sessions.of(context).get(request.launched, LaunchedRun, "launched run")
        return _ending_to_wire(launched.ending)

    @answers
    def CancelLaunchedRun(
        self, request: wire.CancelLaunchedRunRequest, context: grpc.ServicerContext
    ) -> wire.CancelLaunchedRunResponse:
        self._sessions.of(context).get(request.launched, LaunchedRun, "launched run").cancel()
        return wire.CancelLaunchedRunResponse()

    @answers
    def ReleaseLaunchedRun(
        self, request: wire.ReleaseLaunchedRunRequest, context: grpc.ServicerContext
    ) -> wire.ReleaseLaunchedRunResponse:
        self._sessions.of(context).release(request.launched)
        return wire.ReleaseLaunchedRunResponse()


def _fence(session: NativeSession, number: int) -> Fence:
    try:
        return Fence.received(session.descriptors.get(number))
    except (OSError, ValueError) as error:
        invalid_argument(f"descriptor {number}: {error}")


def _require_no_error(fences: Sequence[Fence]) -> None:
    """Refuse fences that are in error already, as devices do. Raises INVALID_ARGUMENT."""
    for fence in fences:
        if fence.state is FenceState.ERROR:
            invalid_argument(f"{fence.name} to wait for is in error")


def _ending_to_wire(ending: Ending) -> wire.GetLaunchedRunResponse:
    error = ending.error
    status = ErrorStatus.NONE if error is None else ErrorStatus.DEVICE_UNAVAILABLE
    report = None if ending.report is None else report_to_wire(ending.report)
    if isinstance(error, HalError):
        status = error.status
    if isinstance(error, OutputTooSmallError):
        report = insufficient_to_wire(error)
    return wire.GetLaunchedRunResponse(
        status=types_pb2.ErrorStatus.ValueType(status),
        message=error.message if isinstance(error, HalError) else str(error or ""),
        report=report,
        timing_launched=_timing_to_wire(ending.timing_launched),
        timing_fenced=_timing_to_wire(ending.timing_fenced),
    )


def _timing_to_wire(timing: Timing) -> request_pb2.Timing:
    return request_pb2.Timing(time_on_device_ns=timing.time_on_device_ns, time_in_driver_ns=timing.time_in_driver_ns)
