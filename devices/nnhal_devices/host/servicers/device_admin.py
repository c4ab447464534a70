"""DeviceAdminService: what operators see of a device besides what all processes tell."""

from __future__ import annotations

import grpc

from nnhal.clock import now_ns
from nnhal.remote.alarms import ALARMS
from nnhal.v1 import admin_pb2 as wire
from nnhal.v1 import admin_pb2_grpc
from nnhal_devices.driver import Control, ShownWorkload, TimedWorkload
from nnhal_devices.host.memory.memory_watch import MemoryWatch
from nnhal_devices.host.operating.shown_figures import (
    device_figures_to_wire,
    figures_to_wire,
    limits_to_wire,
    operation_times_to_wire,
    temperature_of,
)
from nnhal_devices.host.runs.prepared_model import PreparedModel
from nnhal_devices.host.runs.watchdog import Watchdog
from nnhal_devices.host.sessions.client_session import ClientSessions
from nnhal_devices.host.sessions.hosted_device import HostedDevice
from nnhal_hosting.admin.guard import OperatorGuard
from nnhal_hosting.rpc import answers

_LONGEST_NS = 4_000_000_000
"""After so long no further run of a measurement begins, and one that is under way ends: a client waits for it."""


class DeviceAdminServicer(admin_pb2_grpc.DeviceAdminServiceServicer):
    """DeviceAdminService over gRPC."""

    def __init__(
        self,
        device: HostedDevice,
        clients: ClientSessions,
        guard: OperatorGuard,
        memory: MemoryWatch,
        watchdog: Watchdog,
    ) -> None:
        self._watchdog = watchdog
        self._device = device
        self._memory = memory
        self._clients = clients
        self._guard = guard
        self._since_ns = now_ns()

    @answers
    def GetDevice(self, request: wire.GetDeviceRequest, context: grpc.ServicerContext) -> wire.GetDeviceResponse:
        self._guard.caller(context)
        device = self._device
        backend, scheduler = device.driver.backend, device.scheduler
        running, queued = scheduler.admissions()
        hung = self._watchdog.hung
        return wire.GetDeviceResponse(
            workers=scheduler.workers,
            running=len(running),
            waiting=len(queued),
            executions_ended=scheduler.ended,
            busy_ns=scheduler.busy_ns,
            staged_bytes=device.counters.staged_bytes,
            buffer_copied_bytes=device.counters.buffer_copied_bytes,
            buffer_bytes=device.memory.used,
            buffer_limit_bytes=device.memory.limit,
            temperature=temperature_of(backend),
            figures=[
                *device_figures_to_wire(backend),
                wire.DeviceFigure(name="memory that only the process has", value=self._memory.used(), unit="bytes"),
                wire.DeviceFigure(name="limit of that memory", value=self._memory.limit, unit="bytes"),
            ],
            limits=limits_to_wire(backend) if request.with_limits else (),
            wire_up_bytes=device.counters.wire_up_bytes,
            wire_down_bytes=device.counters.wire_down_bytes,
            injected_faults=device.hooks.injected,
            hung_executions=hung.number,
            last_hung=hung.last,
            last_hung_ns=hung.last_ns,
            at_ns=now_ns(),
            since_ns=self._since_ns,
        )

    @answers
    def GetFigures(self, request: wire.GetFiguresRequest, context: grpc.ServicerContext) -> wire.GetFiguresResponse:
        self._guard.require_operator(context, "look at the figures of a prepared model")
        workload = self._clients.find(request.prepared_model, PreparedModel, "prepared model").workload
        if not isinstance(workload, ShownWorkload):
            return wire.GetFiguresResponse()
        return wire.GetFiguresResponse(figures=figures_to_wire(workload.figures()))

    @answers
    def MeasureOperations(
        self, request: wire.MeasureOperationsRequest, context: grpc.ServicerContext
    ) -> wire.MeasureOperationsResponse:
        self._guard.require_operator(context, "measure the operations of a prepared model")
        prepared = self._clients.find(request.prepared_model, PreparedModel, "prepared model")
        count, workload = len(prepared.model.model.main.operations), prepared.workload
        if not isinstance(workload, TimedWorkload):
            note = f"{self._device.driver.name} does not tell the times of operations"
            return wire.MeasureOperationsResponse(note=note, operation_count=count)
        control = Control(deadline_ns=now_ns() + _LONGEST_NS)
        with ALARMS.set(_LONGEST_NS / 1e9, control.interrupt):  # what is measured may never end, as a loop on zeros
            times = workload.operation_times(control)
        return operation_times_to_wire(times, count)
