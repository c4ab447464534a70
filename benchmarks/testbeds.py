"""Testbeds under ``nnhal up``, for measurements."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.generators import BenchError
from nnhal.errors import NnhalError
from nnhal.remote.supervisor import SupervisorControl
from nnhal.v1 import supervisor_pb2

_START_SECONDS = 180.0
_STOP_SECONDS = 30.0
_SHOWN_CHARACTERS = 2000
"""Characters that are shown of the log of a testbed that does not start."""


@dataclass(frozen=True, slots=True)
class RunningTestbed:
    """A testbed that runs."""

    directory: Path
    """What ``nnhal up`` was given."""
    supervisor: int
    """The id of the supervisor's process."""
    pids: Mapping[str, int]
    """The other processes by name: devices, ``framework``, ``dashboard``."""
    addresses: Mapping[str, str]
    """HOST:PORT by protocol: ``http`` and ``grpc`` of the framework, ``dashboard``."""

    @property
    def devices(self) -> list[str]:
        """The names of the devices."""
        return [name for name in self.pids if name not in ("framework", "dashboard")]

    def kill(self) -> None:
        """End all processes as a loss of power does: at once, with whatever they are doing."""
        for pid in (self.supervisor, *self.pids.values()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def running_testbed(
    root: Path, topology: str, options: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Iterator[RunningTestbed]:
    """Run ``nnhal up`` on a topology until the context ends; its files and its log are below ``root``.

    ``environment`` is added to this process's. Raises BenchError if the testbed does not become ready.
    """
    root.mkdir(parents=True, exist_ok=True)
    file, log = root / "testbed.toml", root / "log"
    file.write_text(topology)
    command = [sys.executable, "-m", "nnhal_tools", "up", str(file), "--directory", str(root / "run"), *options]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **(environment or {})})
    try:
        yield _ready(process, root / "run", log)
    finally:
        process.terminate()
        process.wait(_STOP_SECONDS)


def _ready(process: subprocess.Popen[bytes], directory: Path, log: Path) -> RunningTestbed:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        processes: Sequence[supervisor_pb2.SupervisedProcess] = ()
        with suppress(NnhalError), SupervisorControl(directory) as supervisor:
            processes = supervisor.processes().processes
        addresses = dict(line.split(": ", 1) for each in processes for line in each.addresses)
        run = all(each.state == supervisor_pb2.SupervisedProcess.STATE_RUNNING for each in processes)
        expected = {"http", "grpc"} | {each.name for each in processes} & {"dashboard"}
        if run and expected <= addresses.keys():
            bare = {protocol: address.removeprefix("http://") for protocol, address in addresses.items()}
            return RunningTestbed(directory, process.pid, {each.name: each.pid for each in processes}, bare)
        time.sleep(0.2)
    raise BenchError(f"the testbed is not ready:\n{log.read_text()[-_SHOWN_CHARACTERS:]}")
