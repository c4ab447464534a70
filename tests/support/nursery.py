"""Devices that can be held in the middle of their work, forked from ``WARM``: ``python -m tests.support.nursery``.

Each serves as ``python -m nnhal_devices`` does. A file ``hold-execute`` or ``hold-prepare`` in a device's directory
holds it at its next operation or preparation while the file exists; the device creates ``at-execute`` or ``at-prepare``
when it is held.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any, Literal

from nnhal.endpoint import Endpoint
from nnhal_devices.__main__ import main as serve
from nnhal_devices.driver import Control, DriverOptions
from nnhal_devices.registry import create_driver
from nnhal_hosting.supervision import Child, stop_all
from tests.support.processes import WARM
from tests.support.waiting import stop, wait_until

Stage = Literal["prepare", "execute"]
_PAUSE = Event()


class Nursery:
    """Devices under one directory, each named after its driver."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._children: dict[str, Child] = {}

    @property
    def pids(self) -> dict[str, int]:
        return {name: child.pid for name, child in self._children.items()}

    def endpoint(self, name: str) -> Endpoint:
        return Endpoint(self._directory / name)

    def start(self, name: str) -> None:
        """Start a device, and wait until it serves."""
        self._children[name] = Child(__name__, [name, "--endpoint", str(self._directory / name)], zygote=WARM)
        self._children[name].wait_until_ready()

    def kill(self, name: str) -> None:
        """Send a device SIGKILL, and wait until it has ended."""
        self._children[name].process.kill()
        self._children[name].stop()

    def close(self) -> None:
        stop_all(list(self._children.values()))

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


def main() -> int:
    """Serve the device of the command line, which can be held."""
    name, _, directory, *_ = sys.argv[1:]
    _be_held(name, Path(directory))
    return serve()


def _be_held(name: str, directory: Path) -> None:
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


if __name__ == "__main__":
    sys.exit(main())
