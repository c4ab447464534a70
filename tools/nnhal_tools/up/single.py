"""One device process for the length of a context."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nnhal.contexts import Closing
from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError
from nnhal.remote import RemoteDevice
from nnhal_hosting.supervision import Child, ended_in_words
from nnhal_tools.up.device_child import device_child
from nnhal_tools.up.drivers import given_device
from nnhal_tools.up.topology import DeviceEntry

_DYING_SECONDS = 5.0
"""How long a process whose session has ended may take to end."""
_RETURN_SECONDS = 10.0
"""How long to wait for a running device that has ended: who runs it may start it again."""
_POLL_SECONDS = 0.1


@contextmanager
def opened_device(device: str, client_name: str, workers: int | None = None) -> Iterator[RemoteDevice]:
    """Open a session with a device that a user means (see ``given_device``): a running one, or a process of its own.

    ``workers`` are those of a driver's process, unless a topology says how many it has; 1 without them.

    Raises StartError, TopologyError, and TransportError or DeadObjectError if the running device does not answer.
    """
    with RenewableDevice(device, client_name, workers) as opened:
        yield opened.remote


@contextmanager
def served_endpoint(device: str) -> Iterator[Endpoint]:
    """The endpoint of a device that a user means (see ``given_device``), whether or not a running one answers.

    A process that is started logs errors only. Raises StartError and TopologyError.
    """
    entry = given_device(device)
    if entry.directory is not None:
        yield Endpoint(entry.directory)
        return
    with _process_of(entry, "--log-level", "error") as (_, endpoint):
        yield endpoint


@contextmanager
def single_device(driver: str, client_name: str) -> Iterator[RemoteDevice]:
    """Start a device process and open a session with it; both end with the context. Raises StartError."""
    with _process_of(DeviceEntry(driver=driver)) as (_, endpoint), RemoteDevice(endpoint, client_name) as remote:
        yield remote


class RenewableDevice(Closing):
    """A session with a device, and another one after the device has died.

    A driver or a command gets a process of its own, which is started again. A running device is not this object's: it
    may come back.
    """

    def __init__(self, device: str, client_name: str, workers: int | None = None) -> None:
        """Open a session with a device that a user means (see ``given_device``), which is started if it must be.

        ``workers`` are those of ``opened_device``.

        Raises StartError, TopologyError, and TransportError or DeadObjectError if the running device does not answer.
        """
        self._name, self._client_name = device, client_name
        self._entry = given_device(device)
        if workers is not None and "workers" not in self._entry.model_fields_set:
            self._entry = self._entry.model_copy(update={"workers": workers})
        directory = self._entry.directory
        self._running = None if directory is None else Endpoint(directory)
        self._child: Child | None = None
        self._opened = ExitStack()
        self.remote = self._open()

    def end_in_words(self) -> str:
        """Say how the device has died."""
        if self._child is None:
            return f"{self._name} ended the session"
        try:
            return f"{self._name} {ended_in_words(self._child.process.wait(_DYING_SECONDS))}"
        except subprocess.TimeoutExpired:
            return f"{self._name} ended the session, though its process goes on"

    def renew(self) -> None:
        """Open a new session, since the device has died.

        Raises StartError if it cannot be started again, DeadObjectError if a running device has not come back.
        """
        self._opened.close()
        self.remote = self._open() if self._running is None else self._returned(self._running)

    def close(self) -> None:
        """End the session, and the process if it was started here."""
        self._opened.close()

    def _open(self) -> RemoteDevice:
        with ExitStack() as stack:
            endpoint = self._running
            if endpoint is None:
                self._child, endpoint = stack.enter_context(_process_of(self._entry))
            remote = stack.enter_context(RemoteDevice(endpoint, self._client_name))
            self._opened = stack.pop_all()
        return remote

    def _returned(self, endpoint: Endpoint) -> RemoteDevice:
        deadline = time.monotonic() + _RETURN_SECONDS
        while time.monotonic() < deadline:
            try:
                return self._open()
            except DeadObjectError:
                time.sleep(_POLL_SECONDS)
        raise DeadObjectError(f"{endpoint.directory} is gone, and did not serve again within {_RETURN_SECONDS:.0f} s")


@contextmanager
def _process_of(entry: DeviceEntry, *options: str) -> Iterator[tuple[Child, Endpoint]]:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        endpoint = Endpoint(Path(directory) / "device")
        child = device_child(entry, endpoint, options)
        try:
            child.wait_until_ready()
            yield child, endpoint
        finally:
            child.stop()
