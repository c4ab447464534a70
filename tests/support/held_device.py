"""A device process whose executions a test holds and releases one by one. It computes as cpu_ref does."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nnhal.endpoint import Endpoint
from tests.support.processes import device_process

NAME = "Held"
_BACKEND = """
import socket

from nnhal_devices.cpu_ref.driver import CpuRef

BACKEND_ID = {name!r}
API_VERSION = (1, 0)


class Held:
    name = BACKEND_ID
    version = "test-held-1.0"

    def __init__(self, options):
        self._reference = CpuRef(options)

    def __getattr__(self, member):
        return getattr(self._reference, member)

    def prepare(self, model, options):
        return Workload(self._reference.prepare(model, options))


class Workload:
    def __init__(self, reference):
        self._reference = reference

    def bind(self, inputs, outputs):
        return Bound(self._reference.bind(inputs, outputs), inputs)


class Bound:
    def __init__(self, reference, inputs):
        self._reference = reference
        self._inputs = inputs

    def run(self, control):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as test:
            try:
                test.connect({path!r})
            except OSError:
                pass  # executions are not held
            else:
                test.send(bytes(self._inputs[0].data))
                test.recv(1)
        return self._reference.run(control)


create_backend = Held
"""


class HeldExecution:
    """An execution that has begun, and is held until ``let_go``. ``value`` has the bytes of its first input."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.value = connection.recv(1 << 16)

    def let_go(self) -> None:
        """Release the execution."""
        self._connection.close()


class HeldDevice:
    """The device, and its executions in the order in which they begin."""

    def __init__(self, endpoint: Endpoint, admin_key: str, listener: socket.socket) -> None:
        self.endpoint = endpoint
        self.admin_key = admin_key
        self._listener = listener

    def next(self) -> HeldExecution:
        """Wait until the next execution begins, and return it."""
        return HeldExecution(self._listener.accept()[0])

    def hold_no_more(self) -> None:
        """Run all later executions without holding them."""
        self._listener.close()


@contextmanager
def held_device(directory: Path, *arguments: str) -> Iterator[HeldDevice]:
    """Run a device process under ``directory``, with further arguments, until the context ends."""
    backends, path = directory / "backends", directory / "held.sock"
    backends.mkdir()
    (backends / "Test_Held_backend.py").write_text(_BACKEND.format(name=NAME, path=str(path)))
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(64)
        listener.settimeout(30)
        with device_process(NAME, directory, "--backend-path", str(backends), *arguments) as (child, endpoint):
            device = HeldDevice(endpoint, child.admin_key, listener)
            try:
                yield device
            finally:
                device.hold_no_more()
