"""What a device says of itself, to clients and to operators."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from nnhal.errors import NnhalError
from nnhal.remote import DeviceDescription, DeviceIdentity, RemoteDevice
from nnhal.v1 import admin_pb2
from nnhal_tools.operate.operator_session import OperatorError, OperatorSession, Reachable

_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device."""

    name: str
    """Its name in plans."""
    identity: DeviceIdentity | None = None
    """What the HAL says of it; None if it does not answer."""
    description: DeviceDescription | None = None
    """What it says of its backend; None if it does not answer, or has none."""
    state: admin_pb2.GetDeviceResponse | None = None
    """What it does, and the limits of its operations; None if it does not tell."""
    problem: str = ""
    """Why it does not tell everything."""


def device_facts(operator: OperatorSession, process: Reachable) -> DeviceFacts:
    """Ask a device, which may not answer. Raises OperatorError if the process is no device."""
    if process.kind != "device":
        raise OperatorError(f"{process.name} is a process of kind {process.kind!r}, expected a device")
    if process.supervised is not None and not process.supervised.pid:
        return DeviceFacts(process.name, problem="it does not run")
    identity = description = None
    try:
        remote = RemoteDevice(process.endpoint, "nnhal-admin", _PATIENCE_SECONDS)
        try:
            identity = remote.identity(_PATIENCE_SECONDS)
            with suppress(NnhalError):  # a device without a backend says no more than the HAL
                description = remote.describe()
        finally:
            remote.close()
        with operator.device(process) as admin:
            return DeviceFacts(process.name, identity, description, admin.device(with_limits=True))
    except NnhalError as error:
        return DeviceFacts(process.name, identity, description, problem=str(error))
