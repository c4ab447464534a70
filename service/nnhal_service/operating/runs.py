"""GetRuns, FindRuns, RecordRuns and GetRecording."""

from __future__ import annotations

import sqlite3

import grpc

from nnhal.clock import boottime_shift
from nnhal.errors import general_failure, invalid_argument
from nnhal.v1 import framework_admin_pb2 as wire
from nnhal_hosting.admin.guard import OperatorGuard
from nnhal_hosting.interpreter_sharing import with_pauses
from nnhal_hosting.rpc import answers
from nnhal_service.operating.executions import FrameworkExecutions
from nnhal_service.operating.finished_run import finished_to_wire
from nnhal_service.operating.run_archive import MOST_FOUND
from nnhal_service.operating.run_history import RunHistory
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
    def FindRuns(self, request: wire.FindRunsRequest, context: grpc.ServicerContext) -> wire.FindRunsResponse:
        self._guard.require_operator(context, "see the runs of others")
        if not 1 <= request.most <= MOST_FOUND:
            invalid_argument(f"{request.most} runs are asked for, expected 1 to {MOST_FOUND}")
        try:
            return wire.FindRunsResponse(runs=self._history.find(request))
        except (OSError, sqlite3.Error) as error:
            general_failure(f"the runs of the last day cannot be read: {error}")

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
