"""The device that is recorded: one that runs, or one that is started for the command whose clients are to meet it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nnhal.endpoint import Endpoint
from nnhal_pages.operating.snapshot import OperatorError
from nnhal_tools.operate.operator_session import OperatorSession
from nnhal_tools.up import DEFAULT_TOPOLOGY, DeviceEntry, Testbed, Topology
from nnhal_tools.up.device_child import device_child
from nnhal_tools.up.drivers import given_device

DEVICE, FRAMEWORK, DIRECTORY = "{device}", "{framework}", "{directory}"
"""What words of a command may have in them: the directories of the device, the framework, and of both."""
_FALLBACK = DEFAULT_TOPOLOGY.device[-1]


@dataclass(frozen=True, slots=True)
class RecordedDevice:
    """A device that serves."""

    endpoint: Endpoint
    directory: Path
    """Where its testbed is."""
    framework: Path | None = None

    def run(self, command: Sequence[str]) -> int:
        """Run a command whose clients meet the device, and return its exit status. Raises OSError."""
        places = {DEVICE: self.endpoint.directory, DIRECTORY: self.directory}
        places[FRAMEWORK] = self.framework or self.directory / "framework"
        words = list(command)
        for name, place in places.items():
            words = [word.replace(name, str(place)) for word in words]
        environment = {**os.environ, "NNHAL_DIRECTORY": str(self.directory)}
        with subprocess.Popen(words, env=environment) as process:
            while True:
                try:
                    return process.wait()
                except KeyboardInterrupt:
                    continue  # the terminal has told the command too, whose end is waited for


@contextmanager
def recorded_device(name: str, root: Path, command: Sequence[str]) -> Iterator[RecordedDevice]:
    """Find a running device by its directory or its name below ``root``; or start a driver, or a device of a topology
    (see ``given_device``), for a command.

    If the command asks for nothing but the device, that is all that is started: a framework with it otherwise.
    Raises StartError, OSError, NnhalError if a testbed does not answer, and ValueError without a command to start for.
    """
    is_place = "/" in name or Endpoint(Path(name).resolve()).link.exists()
    running = {} if is_place else _running(root)
    if name in running:
        yield RecordedDevice(running[name], root, root / "framework")
        return
    entry = given_device(name)
    if entry.directory is not None:
        yield RecordedDevice(Endpoint(entry.directory), entry.directory.parent)
        return
    if not command:
        raise ValueError(
            f"no device is called {name!r} below {root}, and there is no command to start one for: expected the name "
            "of a running device, its directory, or '-- COMMAND'"
        )
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        yield from _started(entry, Path(directory), command)


def _running(root: Path) -> dict[str, Endpoint]:
    """The devices below a directory, by their names."""
    with OperatorSession(root) as operator:
        try:
            return {process.name: process.endpoint for process in operator.processes() if process.kind == "device"}
        except OperatorError:  # there are none
            return {}


def _started(entry: DeviceEntry, directory: Path, command: Sequence[str]) -> Iterator[RecordedDevice]:
    words = " ".join(command)
    if DEVICE in words and FRAMEWORK not in words and DIRECTORY not in words:
        endpoint = Endpoint(directory / entry.title)
        child = device_child(entry, endpoint, ["--allow-recording"])
        try:
            child.wait_until_ready()
            yield RecordedDevice(endpoint, directory)
        finally:
            child.stop()
        return
    others = () if entry.title == _FALLBACK.title else (_FALLBACK,)
    with Testbed(Topology(device=(entry, *others)), directory, allow_recording=True) as testbed:
        yield RecordedDevice(testbed.endpoint(entry.title), directory, testbed.framework)
