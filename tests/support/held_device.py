"""A device process that computes as cpu_ref does; a test holds and releases its executions and preparations."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nnhal.endpoint import Endpoint
from nnhal_hosting.supervision import Child
from tests.support.processes import device_process

NAME = "Held"
_BACKEND = """
import ctypes
import socket

from nnhal_devices.cpu_ref.driver import CpuRef

BACKEND_ID = {name!r}
API_VERSION = (1, 0)


def be_held(path, value):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as test:
        try:
            test.connect(path)
        except OSError:
            return  # nothing is held
        test.send(value)
        if test.recv(1):  # unlike CDLL, PyDLL keeps the interpreter's lock during the call
            ctypes.PyDLL(None).recv(test.fileno(), ctypes.create_string_buffer(1), 1, 0)


class Held:
    name = BACKEND_ID
    version = "test-held-1.0"

    def __init__(self, options):
        self._reference = CpuRef(options)

    def __getattr__(self, member):
        return getattr(self._reference, member)

    def prepare(self, model, options):
        be_held({path!r} + ".prepare", b"prepare")
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
        be_held({path!r}, bytes(self._inputs[0].data))
        return self._reference.run(control)


create_backend = Held
"""


class HeldExecution:
    """Execution that has begun and is held until ``let_go``. ``value`` has the bytes of an execution's first input."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.value = connection.recv(1 << 16)

    def keep_interpreter(self) -> None:
        """Have it keep the lock of the device's interpreter from now on, as one call of a C library may."""
        self._connection.send(b"keep")

    def let_go(self) -> None:
        self._connection.close()


class HeldDevice:
    """The device, and its executions in the order in which they begin."""

    def __init__(
        self, endpoint: Endpoint, admin_key: str, listener: socket.socket, preparations: socket.socket
    ) -> None:
        self.endpoint = endpoint
        self.admin_key = admin_key
        self._listener = listener
        self._preparations = preparations

    def next(self) -> HeldExecution:
        return HeldExecution(self._listener.accept()[0])

    def hold_preparations(self) -> None:
        self._preparations.listen(64)

    def next_preparation(self) -> HeldExecution:
        return HeldExecution(self._preparations.accept()[0])

    def hold_no_more(self) -> None:
        """Run all later executions without holding them."""
        self._listener.close()


@contextmanager
def held_device(directory: Path, *arguments: str) -> Iterator[HeldDevice]:
    """Run a device process under ``directory``, with further arguments, until the context ends."""
    backends, path = directory / "backends", directory / "held.sock"
    backends.mkdir()
    (backends / "Test_Held_backend.py").write_text(_BACKEND.format(name=NAME, path=str(path)))
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as preparations,
    ):
        listener.bind(str(path))
        listener.listen(64)
        listener.settimeout(30)
        preparations.bind(f"{path}.prepare")
        preparations.settimeout(30)
        with held_process(directory, *arguments) as (child, endpoint):
            device = HeldDevice(endpoint, child.admin_key, listener, preparations)
            try:
                yield device
            finally:
                device.hold_no_more()


@contextmanager
def held_process(directory: Path, *arguments: str) -> Iterator[tuple[Child, Endpoint]]:
    """Run the process of a held device that is or was there, until the context ends."""
    with device_process(NAME, directory, "--backend-path", str(directory / "backends"), *arguments) as process:
        yield process
