"""A device process: one driver, served at one endpoint."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

from nnhal.endpoint import Endpoint
from nnhal.memory import MemoryGuard
from nnhal.remote.backend import require_alignment
from nnhal.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    backend_pb2,
    backend_pb2_grpc,
    buffer_pb2,
    buffer_pb2_grpc,
    burst_pb2,
    burst_pb2_grpc,
    device_pb2,
    device_pb2_grpc,
    execution_pb2,
    execution_pb2_grpc,
    faults_pb2,
    faults_pb2_grpc,
    fenced_execution_callback_pb2,
    fenced_execution_callback_pb2_grpc,
    prepared_model_pb2,
    prepared_model_pb2_grpc,
    recording_pb2,
    recording_pb2_grpc,
)
from nnhal_devices.driver import Driver
from nnhal_devices.host.memory.memory_watch import MemoryWatch
from nnhal_devices.host.operating.administration import DeviceAdministration
from nnhal_devices.host.operating.work_view import title_of
from nnhal_devices.host.runs.hooks import NO_HOOKS
from nnhal_devices.host.runs.prepared_model import PreparedModel
from nnhal_devices.host.runs.watchdog import Watchdog
from nnhal_devices.host.servicers.backend import BackendServicer
from nnhal_devices.host.servicers.buffer import BufferServicer
from nnhal_devices.host.servicers.burst import BurstServicer
from nnhal_devices.host.servicers.device import DeviceServicer
from nnhal_devices.host.servicers.device_admin import DeviceAdminServicer
from nnhal_devices.host.servicers.execution import ExecutionServicer
from nnhal_devices.host.servicers.faults import FaultServicer
from nnhal_devices.host.servicers.fenced_execution import FencedExecutionCallbackServicer
from nnhal_devices.host.servicers.prepared_model import PreparedModelServicer
from nnhal_devices.host.servicers.recording import DeviceRecordingServicer
from nnhal_devices.host.sessions.client_session import ClientSession, ClientSessions
from nnhal_devices.host.sessions.hosted_device import HostedDevice
from nnhal_devices.host.settings import DeviceSettings
from nnhal_devices.host.wire.door import WireDoor
from nnhal_devices.host.wire.limits import WireLimits
from nnhal_devices.host.wire.own_device import OwnDevice
from nnhal_devices.host.wire.server import WireServer
from nnhal_hosting.admin.oversight import NO_OVERSIGHT, Oversight
from nnhal_hosting.admin.servicer import serve_admin
from nnhal_hosting.descriptors import SessionLimits
from nnhal_hosting.listener_watch import asks_grpc
from nnhal_hosting.polling import Poller
from nnhal_hosting.server import ServerProcess
from nnhal_hosting.supervision import end_at_once

_FILES = (
    admin_pb2,
    backend_pb2,
    buffer_pb2,
    burst_pb2,
    device_pb2,
    execution_pb2,
    faults_pb2,
    fenced_execution_callback_pb2,
    prepared_model_pb2,
    recording_pb2,
)
S = TypeVar("S")


if TYPE_CHECKING:
    from nnhal_devices.faults.injection import DeviceFaults
    from nnhal_devices.host.recording.recorder import DeviceRecorder


def host(
    driver: Driver,
    endpoint: Endpoint,
    settings: DeviceSettings,
    guard: MemoryGuard | None = None,
    oversight: Oversight = NO_OVERSIGHT,
    faults: DeviceFaults | None = None,
) -> ServerProcess:
    """Create the servers of a device process. Raises OSError or ValueError if the endpoint cannot be used,
    GENERAL_FAILURE if the driver has an alignment that memory cannot have.

    With the process's ``guard``, files that may shrink are mapped if the driver can use them so. Operators are those
    whom its ``oversight`` knows. With ``faults``, the device has those, and takes more.
    """
    hooks = NO_HOOKS
    if faults is not None:  # a process that takes none does not pay for importing what injects them
        from nnhal_devices.host.fault_points import FaultPoints

        hooks = FaultPoints(faults, driver)
    for alignment in (driver.memory.alignment, *(handles.alignment for handles in driver.backend.tensor_handles)):
        require_alignment(alignment, f"driver {driver.name}")
    recorder = _recorder(driver, settings)
    make_prepared_model = PreparedModel if recorder is None else recorder.prepared_model
    device = HostedDevice(driver, settings, guard, hooks, make_prepared_model)
    clients = ClientSessions(lambda session: ClientSession(session, driver.backend.context, device.copies, hooks))
    limits = SessionLimits(
        descriptors=settings.max_descriptors,
        sessions=settings.max_sessions,
        place=f"device {endpoint.directory.name}",
        prefix="NNHAL_DEVICE_",
    )
    poller = Poller(settings.spin_us * 1000)
    process = ServerProcess(
        endpoint,
        clients.opened,
        limits,
        settings.calls,
        settings.allowed_uids,
        poller,
        oversight.keys,
        oversight.give_up,
    )
    memory = MemoryWatch(settings.memory_bytes, end_at_once)
    hang = settings.hang_seconds if faults is None else 0.0  # a fault may have a run take as long as it says
    watchdog = Watchdog(
        device.scheduler, settings.stop_seconds, settings.turn_seconds, title_of, end_at_once, memory, hang
    )
    process.outlast(watchdog)
    _serve_calls(process, device, clients, recorder)
    recording_pb2_grpc.add_DeviceRecordingServiceServicer_to_server(
        DeviceRecordingServicer(recorder, clients), process.rpc
    )
    faults_pb2_grpc.add_FaultServiceServicer_to_server(FaultServicer(faults, clients), process.rpc)
    operators = serve_admin(process, DeviceAdministration(device, clients), oversight)
    process.serve_operators(
        admin_pb2_grpc.add_DeviceAdminServiceServicer_to_server,
        DeviceAdminServicer(device, clients, operators, memory, watchdog),
    )
    door = WireDoor.of(settings)
    if door is not None:
        wire = WireServer(OwnDevice(endpoint, device, clients), door, WireLimits.of(settings), settings.rpc_threads)
        process.accompany(wire)
        process.watch(f"the wire at {wire.address}", asks_grpc(wire.address, door.tls is not None))
        print(f"wire: {wire.address}", file=sys.stderr)
    if faults is not None:
        process.accompany(faults)
    if recorder is not None:
        process.accompany(recorder)
    process.reflect([service.full_name for file in _FILES for service in file.DESCRIPTOR.services_by_name.values()])
    return process


def _recorder(driver: Driver, settings: DeviceSettings) -> DeviceRecorder | None:
    """Return what records the calls of a device; None if it is not recorded."""
    if not settings.allow_recording:  # as with faults
        return None
    from nnhal_devices.host.recording.notes import NoteLimits
    from nnhal_devices.host.recording.recorder import DeviceRecorder

    return DeviceRecorder(driver, NoteLimits(settings.recording_calls, settings.recording_bytes))


def _serve_calls(
    process: ServerProcess, device: HostedDevice, clients: ClientSessions, recorder: DeviceRecorder | None
) -> None:
    """Serve the services of the contract. Calls are recorded with what faults make of them."""
    rpc, launcher = process.rpc, device.launcher

    def met(service: str, servicer: S) -> S:
        servicer = device.hooks.around(service, servicer, clients)
        return servicer if recorder is None else recorder.around(service, servicer, clients)

    device_pb2_grpc.add_DeviceServiceServicer_to_server(met("Device", DeviceServicer(device, clients)), rpc)
    prepared_model_pb2_grpc.add_PreparedModelServiceServicer_to_server(
        met("PreparedModel", PreparedModelServicer(launcher, clients)), rpc
    )
    execution_pb2_grpc.add_ExecutionServiceServicer_to_server(
        met("Execution", ExecutionServicer(launcher, clients)), rpc
    )
    burst_pb2_grpc.add_BurstServiceServicer_to_server(met("Burst", BurstServicer(clients)), rpc)
    buffer_pb2_grpc.add_BufferServiceServicer_to_server(met("Buffer", BufferServicer(clients)), rpc)
    fenced_execution_callback_pb2_grpc.add_FencedExecutionCallbackServiceServicer_to_server(
        met("FencedExecutionCallback", FencedExecutionCallbackServicer(clients)), rpc
    )
    backend_pb2_grpc.add_BackendServiceServicer_to_server(met("Backend", BackendServicer(device, clients)), rpc)
