"""Devices that are used over TCP: their own processes, and those that use them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from nnhal.remote.admin import DeviceAdmin
from nnhal.v1 import backend_pb2
from nnhal_devices.driver import DriverOptions
from nnhal_devices.remote.connection import WireConnection
from nnhal_devices.remote.options import RemoteOptions
from nnhal_hosting.supervision import Child
from tests.support.processes import WARM
from tests.support.waiting import wait_until

_ADDRESS = "wire: "


@dataclass(frozen=True)
class Served:
    """A device process."""

    child: Child
    endpoint: Endpoint
    address: str = ""
    """Where it listens for other hosts; empty if it does not."""

    @property
    def option(self) -> str:
        return f"--option=endpoint=tcp://{self.address}"

    def usage(self) -> backend_pb2.GetUsageResponse:
        """Return what its process holds, without the session that asks."""
        with RemoteDevice(self.endpoint, "usage") as device:
            return device.usage()

    def admin(self) -> DeviceAdmin:
        return DeviceAdmin(self.endpoint, self.child.admin_key)


@contextmanager
def far_device(
    directory: Path, *options: str, driver: str = "cpu_ref", listen: str = "127.0.0.1:0"
) -> Iterator[Served]:
    """Run a device process that listens for other hosts."""
    lines: list[str] = []
    endpoint = Endpoint(directory / f"far-{driver}")
    words = [driver, "--endpoint", str(endpoint.directory), "--listen", listen, *options]
    child = Child("nnhal_devices", words, heard=lines.append, zygote=WARM)
    try:
        child.wait_until_ready()
        wait_until(lambda: any(line.startswith(_ADDRESS) for line in lines), "the device says where it listens")
        address = next(line.removeprefix(_ADDRESS).strip() for line in lines if line.startswith(_ADDRESS))
        yield Served(child, endpoint, address)
    finally:
        child.stop()


@contextmanager
def near_device(directory: Path, far: Served, *options: str, name: str = "near") -> Iterator[Served]:
    """Run a device process that uses another over TCP."""
    endpoint = Endpoint(directory / name)
    child = Child("nnhal_devices", ["remote", "--endpoint", str(endpoint.directory), far.option, *options], zygote=WARM)
    try:
        child.wait_until_ready()
        yield Served(child, endpoint)
    finally:
        child.stop()


@contextmanager
def connection_to(far: Served, **options: str) -> Iterator[WireConnection]:
    """Open a session with a device over TCP."""
    given = DriverOptions(extra={"endpoint": f"tcp://{far.address}", "patience": "3", **options})
    connection = WireConnection(RemoteOptions.of(given), lambda *_: None)
    try:
        yield connection
    finally:
        connection.close()
