"""One device process for the length of a context."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from nnhal_hosting.supervision import Child


@contextmanager
def opened_device(device: str, client_name: str) -> Iterator[RemoteDevice]:
    """Open a session with a running device by its directory, or with a process of its own for a driver by its name.

    Raises StartError, and TransportError or DeadObjectError if the running device does not answer.
    """
    endpoint = Endpoint(Path(device).resolve())
    if endpoint.link.exists():
        with RemoteDevice(endpoint, client_name) as remote:
            yield remote
        return
    with single_device(device, client_name) as remote:
        yield remote


@contextmanager
def single_device(driver: str, client_name: str) -> Iterator[RemoteDevice]:
    """Start a device process and open a session with it; both end with the context. Raises StartError."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        endpoint = Endpoint(Path(directory) / "device")
        child = Child("nnhal_devices", [driver, "--endpoint", str(endpoint.directory)])
        try:
            child.wait_until_ready()
            with RemoteDevice(endpoint, client_name) as remote:
                yield remote
        finally:
            child.stop()
