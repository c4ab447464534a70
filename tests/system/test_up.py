"""``nnhal up``: starting, supervising and stopping a testbed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nnhal.endpoint import Endpoint
from nnhal.errors import NnhalError
from nnhal.remote import RemoteDevice
from nnhal_client import connect
from tests.support.command import command
from tests.support.waiting import wait_for_death, wait_until


@contextmanager
def running(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """``nnhal up`` under a directory, after it has printed that it is ready."""
    process = subprocess.Popen(
        command(["up", "--directory", str(directory)]), stderr=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stderr is not None
    with process.stderr:
        try:
            assert any("ready:" in line for line in process.stderr)
            yield process
        finally:
            process.kill()
            process.wait()


def pids(directory: Path) -> list[int]:
    """Return the process ids of all devices of a testbed."""
    with connect(directory / "framework") as framework:
        return [device.pid for device in framework.devices()]


def test_sigterm_stops_everything(short_path: Path) -> None:
    with running(short_path) as process:
        devices = pids(short_path)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        for pid in devices:
            wait_for_death(pid)
    assert not list(short_path.glob("*/*.sock"))


def test_no_process_is_left_if_the_supervisor_is_killed(short_path: Path) -> None:
    with running(short_path) as process:
        devices = pids(short_path)
        process.kill()
        for pid in devices:
            wait_for_death(pid)


def test_a_killed_device_is_restarted_and_used_again(short_path: Path) -> None:
    with running(short_path):
        with connect(short_path / "framework") as framework:
            first = next(device for device in framework.devices() if device.name == "cpu_ref")
            os.kill(first.pid, signal.SIGKILL)
            wait_until(lambda: _serves(Endpoint(short_path / "cpu_ref"), first.pid), "cpu_ref serves again")
            second = next(device for device in framework.devices() if device.name == "cpu_ref")
        assert second.available
        assert second.pid != first.pid


def _serves(endpoint: Endpoint, not_this: int) -> bool:
    try:
        with RemoteDevice(endpoint) as device:
            return device.pid != not_this and bool(device.version())
    except NnhalError:
        return False
