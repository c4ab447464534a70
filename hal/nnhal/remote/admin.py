"""The proxies of processes for operators: AdminService and what stands beside it (see admin.proto).

Their answers are the messages of the wire, which hold plain values only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from nnhal.contexts import Closing
from nnhal.endpoint import Endpoint
from nnhal.remote.calls import Calls
from nnhal.v1 import admin_pb2 as wire
from nnhal.v1 import admin_pb2_grpc, framework_admin_pb2_grpc, framework_pb2, supervisor_pb2
from nnhal.v1 import framework_admin_pb2 as framework_wire

CLIENT_NAME = "nnhal-admin"
_ANSWER_SECONDS = 10.0
_MEASURING_SECONDS = 60.0
"""The device may compile the model once more, and then runs it for some seconds."""
"""Seconds for a call that a process serves at once, in threads that clients cannot block."""
T = TypeVar("T")


class ProcessAdmin(Closing):
    """A device or framework process, as an operator sees it. Use it as a context. Safe to use from several threads.

    Every method raises HalError if the process refuses, TransportError if it does not answer in time, and
    DeadObjectError if it is gone.
    """

    def __init__(
        self, endpoint: Endpoint, key: str = "", client_name: str = CLIENT_NAME, patience: float | None = None
    ) -> None:
        """Open a session. Without ``key`` it sees its own session only. ``patience`` is in seconds (see ``Calls``)."""
        self._calls = Calls(endpoint, client_name, patience, key)
        self._admin = admin_pb2_grpc.AdminServiceStub(self._calls.rpc)

    @property
    def endpoint(self) -> Endpoint:
        return self._calls.endpoint

    @property
    def gone(self) -> bool:
        """True if the process has ended the session or is dead. A restarted process does not know the session."""
        return self._calls.hung_up

    def process(self, brief: bool = False) -> wire.GetProcessResponse:
        """Return what the process is, what it executes and, unless it is to be ``brief``, what its sessions own."""
        return self._ask(self._admin.GetProcess, wire.GetProcessRequest(brief=brief))

    def end_session(self, session: str) -> None:
        """End a session by its public id."""
        self._ask(self._admin.EndSession, wire.EndSessionRequest(session=session))

    def cancel_execution(self, execution: str) -> bool:
        """Cancel an execution by its public id; return whether it has ended."""
        request = wire.CancelExecutionRequest(execution=execution)
        return self._ask(self._admin.CancelExecution, request).ended

    def drain(self, drain: bool = True) -> int:
        """Have it take no new work, or take work again; return how many executions run or wait."""
        return self._ask(self._admin.Drain, wire.DrainRequest(drain=drain)).executions

    def exit(self) -> None:
        """End the process, for what supervises it to start it again."""
        self._ask(self._admin.Exit, wire.ExitRequest())

    def set_log_level(self, level: str) -> None:
        """Say from which level on it logs: debug, info, warning or error."""
        self._ask(self._admin.SetLogLevel, wire.SetLogLevelRequest(level=level))

    def log_lines(self, after: int = 0, most: int = 0) -> wire.GetLogLinesResponse:
        """Return the last lines that it has logged, after the line of a number."""
        return self._ask(self._admin.GetLogLines, wire.GetLogLinesRequest(after=after, most=most))

    def _ask(self, method: grpc.UnaryUnaryMultiCallable[Any, T], request: Message) -> T:
        return self._calls.call(method, request, _ANSWER_SECONDS)

    def close(self) -> None:
        self._calls.close()


class DeviceAdmin(ProcessAdmin):
    """A device process, as an operator sees it. Its methods raise as those of ``ProcessAdmin`` do."""

    def __init__(
        self, endpoint: Endpoint, key: str = "", client_name: str = CLIENT_NAME, patience: float | None = None
    ) -> None:
        super().__init__(endpoint, key, client_name, patience)
        self._device = admin_pb2_grpc.DeviceAdminServiceStub(self._calls.rpc)

    def device(self, with_limits: bool = False) -> wire.GetDeviceResponse:
        """Return how much the device does and has done, and on request what it takes of each operation."""
        return self._ask(self._device.GetDevice, wire.GetDeviceRequest(with_limits=with_limits))

    def figures(self, prepared_model: int) -> wire.WorkloadFigures:
        """Return what the driver shows of a prepared model; nothing if it has no figures."""
        request = wire.GetFiguresRequest(prepared_model=prepared_model)
        return self._ask(self._device.GetFigures, request).figures

    def operation_times(self, prepared_model: int) -> wire.MeasureOperationsResponse:
        """Return how long each operation of a prepared model takes, which the device may measure for some seconds."""
        request = wire.MeasureOperationsRequest(prepared_model=prepared_model)
        return self._calls.call(self._device.MeasureOperations, request, _MEASURING_SECONDS)


class FrameworkAdmin(ProcessAdmin):
    """The framework process, as an operator sees it. Its methods raise as those of ``ProcessAdmin`` do."""

    def __init__(
        self, endpoint: Endpoint, key: str = "", client_name: str = CLIENT_NAME, patience: float | None = None
    ) -> None:
        super().__init__(endpoint, key, client_name, patience)
        self._framework = framework_admin_pb2_grpc.FrameworkAdminServiceStub(self._calls.rpc)

    def framework(self, events_after: int = 0) -> framework_wire.GetFrameworkResponse:
        """Return how devices and models fare, what was done since the start, and the events after one of a number."""
        request = framework_wire.GetFrameworkRequest(events_after=events_after)
        return self._calls.call(self._framework.GetFramework, request)

    def served_model(self, name: str, version: str = "") -> framework_wire.GetServedModelResponse:
        """Describe a version of a model of the repository, by default the newest that is ready."""
        request = framework_wire.GetServedModelRequest(name=name, version=version)
        return self._calls.call(self._framework.GetServedModel, request)

    def load(self, name: str, config_json: str = "", files: Mapping[str, bytes] | None = None) -> None:
        """Load a model of the repository, or ``files`` by VERSION/NAME in place of its folder."""
        request = framework_wire.LoadServedModelRequest(name=name, config_json=config_json, files=files or {})
        self._calls.call(self._framework.LoadServedModel, request)

    def unload(self, name: str) -> None:
        """Unload all versions of a model of the repository."""
        self._calls.call(self._framework.UnloadServedModel, framework_wire.UnloadServedModelRequest(name=name))

    def explain(
        self, target: framework_wire.PlanTarget, original: bool = False, as_it_runs: bool = False
    ) -> framework_wire.ExplainTargetResponse:
        """Explain the plan that a model runs by, or the one that it was loaded with.

        ``as_it_runs``: a file that a device was given as it is stays one operation, so that nothing is imported.
        """
        request = framework_wire.ExplainTargetRequest(target=target, original=original, as_it_runs=as_it_runs)
        return self._calls.call(self._framework.ExplainTarget, request)

    def plan(
        self,
        target: framework_wire.PlanTarget,
        pins: Sequence[framework_pb2.Pin],
        devices: Sequence[str] = (),
        partitioner: framework_pb2.Partitioner.ValueType = framework_pb2.PARTITIONER_UNSPECIFIED,
    ) -> framework_pb2.ModelExplanation:
        """Plan a model with other pins, prepare nothing, and explain that plan."""
        request = framework_wire.PlanTargetRequest(target=target, pins=pins, devices=devices, partitioner=partitioner)
        return self._calls.call(self._framework.PlanTarget, request).explanation

    def apply(
        self, model: str, pins: Sequence[framework_pb2.Pin], devices: Sequence[str] = (), version: str = ""
    ) -> str:
        """Have a version of a model of the repository run by a plan with these pins; the newest without a version.

        Returns the lines of configuration for it.
        """
        request = framework_wire.ApplyPlanRequest(model=model, pins=pins, devices=devices, version=version)
        return self._calls.call(self._framework.ApplyPlan, request).config_lines

    def runs(self, after: int = 0, model: str = "", most: int = 0) -> framework_wire.GetRunsResponse:
        """Return the runs that wait and run, and those that have ended after the one of a number.

        Of those that went well at most so many, the newest; all that are kept with 0.
        """
        request = framework_wire.GetRunsRequest(after=after, model=model, most=most)
        return self._calls.call(self._framework.GetRuns, request)

    def find_runs(self, request: framework_wire.FindRunsRequest) -> Sequence[framework_wire.FinishedRun]:
        """Return runs of the last day."""
        return self._calls.call(self._framework.FindRuns, request).runs

    def record(self, model: str, count: int) -> int:
        """Record the next ``count`` runs of a model, or of all models; return the recording's number."""
        request = framework_wire.RecordRunsRequest(model=model, count=count)
        return self._calls.call(self._framework.RecordRuns, request).recording

    def recording(self, number: int) -> framework_wire.GetRecordingResponse:
        request = framework_wire.GetRecordingRequest(recording=number)
        return self._calls.call(self._framework.GetRecording, request)

    def add_device(self, name: str, directory: str) -> None:
        request = framework_wire.AddDeviceRequest(name=name, directory=directory)
        self._calls.call(self._framework.AddDevice, request)

    def remove_device(self, name: str) -> None:
        request = framework_wire.FrameworkAdminServiceRemoveDeviceRequest(name=name)
        self._calls.call(self._framework.RemoveDevice, request)

    def note_change(self, change: supervisor_pb2.ProcessEvent) -> None:
        """Have the framework keep what an operator has done, as an event."""
        request = framework_wire.NoteOperatorChangeRequest(change=change)
        self._ask(self._framework.NoteOperatorChange, request)

    def drain_device(self, name: str, drain: bool = True) -> list[str]:
        """Have models be planned again without a device, or use it again; return those with a step on it still."""
        request = framework_wire.DrainDeviceRequest(name=name, drain=drain)
        return list(self._calls.call(self._framework.DrainDevice, request).models)
