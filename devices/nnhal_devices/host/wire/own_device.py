"""The device that a wire leads to, as its own process sees it."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.codec.capabilities import capabilities_to_wire, extensions_to_wire
from nnhal.endpoint import Endpoint
from nnhal.v1 import admin_pb2, types_pb2
from nnhal.v1 import wire_pb2 as wire
from nnhal_devices.driver import ShownWorkload
from nnhal_devices.host.operating.shown_figures import (
    device_figures_to_wire,
    figures_to_wire,
    limits_to_wire,
    temperature_of,
)
from nnhal_devices.host.runs.execution import Execution
from nnhal_devices.host.runs.prepared_model import PreparedModel
from nnhal_devices.host.sessions.client_session import ClientSessions
from nnhal_devices.host.sessions.hosted_device import HostedDevice


@dataclass(frozen=True, slots=True)
class OwnDevice:
    """Parts of the device that sessions of the wire need besides what every client of its endpoint can ask for."""

    endpoint: Endpoint
    device: HostedDevice
    clients: ClientSessions

    def introduce(self, answer: wire.OpenSessionResponse) -> None:
        """Say what is static about the device, apart from its description."""
        driver = self.device.driver
        answer.version = driver.version
        answer.type = types_pb2.DeviceType.ValueType(driver.type)
        answer.capabilities.CopyFrom(capabilities_to_wire(driver.capabilities))
        answer.extensions.extend(extensions_to_wire(driver.extensions))
        answer.has_temperature = driver.backend.temperature is not None
        answer.operation_limits.extend(limits_to_wire(driver.backend))

    def figures(self) -> wire.GetDeviceFiguresResponse:
        """Return the driver's figures of this moment."""
        backend = self.device.driver.backend
        return wire.GetDeviceFiguresResponse(
            figures=device_figures_to_wire(backend), temperature=temperature_of(backend)
        )

    def shows(self, handle: int) -> bool:
        """Return whether the driver shows figures of a prepared model."""
        return isinstance(self.clients.find(handle, PreparedModel, "prepared model").workload, ShownWorkload)

    def workload_figures(self, handle: int) -> admin_pb2.WorkloadFigures:
        """Return the figures of a prepared model. Raises HalError."""
        workload = self.clients.find(handle, PreparedModel, "prepared model").workload
        return (
            figures_to_wire(workload.figures()) if isinstance(workload, ShownWorkload) else admin_pb2.WorkloadFigures()
        )

    def cancel(self, handle: int) -> None:
        """Cancel an execution, if it runs or waits."""
        execution = self.clients.find(handle, Execution, "execution")
        scheduler = self.device.scheduler
        running, waiting = scheduler.admissions()
        for admission in (*running, *waiting):
            if admission.execution is execution:
                scheduler.cancel(admission.number)
