"""Device processes that start fast and can be held in the middle of their work: ``python -m tests.support.nursery``.

The process imports all drivers once, and each device is a fork that serves as ``python -m nnhal_devices`` does. A line
with a driver and a directory on standard input starts one; its process id is printed when it serves. All of them end
with standard input.

A file ``hold-execute`` or ``hold-prepare`` in a device's directory holds it at its next operation or preparation while
the file exists; the device creates ``at-execute`` or ``at-prepare`` when it is held.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from threading import Event
from types import TracebackType
from typing import Any, Literal

from nnhal.endpoint import Endpoint
from nnhal_devices.__main__ import main as serve
from nnhal_devices.driver import Control, DriverOptions
from nnhal_devices.registry import create_driver
from nnhal_hosting.admin_keys import new_admin_key
from nnhal_hosting.supervision import send_admin_key
from tests.support.waiting import stop, wait_for_death, wait_until

Stage = Literal["prepare", "execute"]
_PAUSE = Event()
_IMPORTED = (
    "nnhal.kernels",
    "nnhal.operations",
    "nnhal.support",
    "nnhal_devices.host",
    *(f"nnhal_devices.{name}" for name in ("cpu_acc", "cpu_ref", "ethos_n", "ethos_u", "gpu_acc")),
    "nnhal_hosting",
)
"""Packages of which devices use modules."""
_OTHERS = ("grpc_health.v1.health", "onnxruntime", "pydantic_settings")


class Nursery:
    """Devices under one directory, each named after its driver. ``pids`` has the latest process of each."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.pids: dict[str, int] = {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            cwd=Path(__file__).parents[2],
        )

    def endpoint(self, name: str) -> Endpoint:
        """Return a device's endpoint."""
        return Endpoint(self._directory / name)

    def start(self, name: str) -> None:
        """Start a device, and wait until it serves."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{name} {self._directory / name}\n")
        self.pids[name] = int(self._process.stdout.readline())

    def kill(self, name: str) -> None:
        """Send a device SIGKILL, and wait until it has ended."""
        os.kill(self.pids[name], signal.SIGKILL)
        wait_for_death(self.pids[name])

    @contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """Stop a device, with its sockets open, until the context ends."""
        stop(self.pids[name])
        try:
            yield
        finally:
            os.kill(self.pids[name], signal.SIGCONT)

    @contextmanager
    def holding(self, name: str, stage: Stage) -> Iterator[Callable[[], None]]:
        """Hold a device at a stage until the context ends. Yields a function that waits until it is held."""
        directory = self._directory / name
        held, order = directory / f"at-{stage}", directory / f"hold-{stage}"
        held.unlink(missing_ok=True)
        order.touch()
        try:
            yield lambda: wait_until(held.exists, f"{name} is held at {stage}")
        finally:
            order.unlink()

    def __enter__(self) -> Nursery:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
        for pid in self.pids.values():
            wait_for_death(pid)


def main() -> None:
    """Start devices until standard input ends."""
    for name in _IMPORTED:
        _import_all(name)
    for name in _OTHERS:
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    supervisors: list[socket.socket] = []
    for line in sys.stdin:
        name, directory = line.split()
        ours, theirs = socket.socketpair()
        send_admin_key(ours, new_admin_key())
        pid = os.fork()
        if pid == 0:
            for supervisor in (*supervisors, ours):
                supervisor.close()
            os._exit(_serve(name, Path(directory), theirs))
        theirs.close()
        supervisors.append(ours)
        if not ours.recv(1):
            return
        print(pid, flush=True)


def _import_all(name: str) -> None:
    """Import a package with all of its modules: a device imports them when it uses them, each fork again."""
    package = import_module(name)
    for module in walk_packages(getattr(package, "__path__", ()), f"{name}."):
        import_module(module.name)


def _serve(name: str, directory: Path, supervisor: socket.socket) -> int:
    def hold(stage: Stage) -> None:
        order = directory / f"hold-{stage}"
        while order.exists():
            (directory / f"at-{stage}").touch()
            _PAUSE.wait(0.005)

    kind: Any = type(create_driver(name, DriverOptions()))
    prepare, check = kind.prepare, Control.check

    def held_prepare(self: Any, *arguments: Any) -> Any:
        hold("prepare")
        return prepare(self, *arguments)

    def held_check(self: Control) -> None:
        hold("execute")
        check(self)

    kind.prepare, Control.check = held_prepare, held_check  # type: ignore[method-assign]
    sys.argv = ["nnhal_devices", name, "--endpoint", str(directory), "--supervisor", str(supervisor.detach())]
    return serve()


if __name__ == "__main__":
    main()
