"""GetRuns, RecordRuns and GetRecording."""

from __future__ import annotations

from collections.abc import Iterator

import grpc

from nnhal.clock import boottime_shift
from nnhal.codec.reports import copied_to_wire
from nnhal.errors import invalid_argument
from nnhal.v1 import framework_admin_pb2 as wire
from nnhal_hosting.admin.guard import OperatorGuard
from nnhal_hosting.interpreter_sharing import with_pauses
from nnhal_hosting.rpc import answers
from nnhal_service.native.convert import report_to_wire
from nnhal_service.operating.executions import FrameworkExecutions
from nnhal_service.operating.run_history import RunHistory
from nnhal_service.serving.history.ended_runs import EndedRun
from nnhal_service.serving.models.monitor import ServingMonitor


class OperatedRuns:
    """The part of FrameworkAdminService (framework_admin.proto) that is about runs."""

    _guard: OperatorGuard
    _history: RunHistory
    _executions: FrameworkExecutions
    _monitor: ServingMonitor

    @answers
    def GetRuns(self, request: wire.GetRunsRequest, context: grpc.ServicerContext) -> wire.GetRunsResponse:
        self._guard.require_operator(context, "see the runs of others")
        live = self._executions.live()
        if request.model:
            live = [state for state in live if state.what.partition(" ")[0] == request.model]
        shift = boottime_shift()
        ended = self._history.after(request.after, request.model, max(request.most, 0))
        return wire.GetRunsResponse(
            live=live,
            finished=[finished_to_wire(number, run, shift) for number, run in with_pauses(ended, 16)],
            recordings=[wire.RecordingState(**state._asdict()) for state in self._monitor.recordings.states()],
        )

    @answers
    def RecordRuns(self, request: wire.RecordRunsRequest, context: grpc.ServicerContext) -> wire.RecordRunsResponse:
        self._guard.require_operator(context, "record runs")
        try:
            number = self._monitor.recordings.begin(request.model, request.count)
        except ValueError as error:
            invalid_argument(str(error))
        return wire.RecordRunsResponse(recording=number)

    @answers
    def GetRecording(
        self, request: wire.GetRecordingRequest, context: grpc.ServicerContext
    ) -> wire.GetRecordingResponse:
        self._guard.require_operator(context, "see recorded runs")
        recording = self._monitor.recordings.get(request.recording)
        if recording is None:
            invalid_argument(f"there is no recording {request.recording}, or it has been dropped for later ones")
        shift = boottime_shift()
        runs = [finished_to_wire(number, run, shift) for number, run in enumerate(recording.runs, 1)]
        return wire.GetRecordingResponse(runs=runs, left=recording.left, model=recording.model)


def finished_to_wire(number: int, run: EndedRun, shift: int) -> wire.FinishedRun:
    """Encode a run that has ended; ``shift`` turns instants of CLOCK_MONOTONIC into those of CLOCK_BOOTTIME."""
    timing = run.timing
    message = wire.FinishedRun(
        number=number,
        model=run.model,
        version=run.version,
        client=run.client,
        request_id=run.request_id,
        arrived_ns=run.arrived_ns + shift,
        ended_ns=run.ended_ns + shift,
        batch_size=run.batch_size,
        devices=_devices_in(run.devices),
        copied_bytes=run.copied.total,
        copied=copied_to_wire(run.copied),
        fell_back=run.fell_back,
        error=run.error,
        recording=run.recording,
        report=None if run.report is None else report_to_wire(run.report),
    )
    if timing is not None:
        message.queue_ns = timing.input_started_ns - timing.queued_ns
        message.input_ns = timing.run_started_ns - timing.input_started_ns
        message.infer_ns = timing.run_ended_ns - timing.run_started_ns
        message.output_ns = timing.output_ended_ns - timing.run_ended_ns
    elif not run.error:
        message.infer_ns = run.ended_ns - run.arrived_ns
    return message


def _devices_in(text: str) -> Iterator[str]:
    """The names of devices in a list that may say how many operations each has."""
    for part in text.split(",") if text else ():
        name, _, count = part.rpartition(":")
        yield name if name and count.isdecimal() else part
