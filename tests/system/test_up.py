"""``nnhal up``: starting, supervising and stopping a testbed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import NnhalError
from nnhal.remote import RemoteDevice
from nnhal_client import connect
from tests.support.command import command
from tests.support.waiting import wait_for_death, wait_until


@contextmanager
def running(
    directory: Path, *options: str, until: str = "ready:", lines: list[str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """``nnhal up`` under a directory, after it has printed that it is ready. ``lines`` gets what it prints before."""
    arguments = ["up", "--directory", str(directory), *(options or ["--no-dashboard"])]
    process = subprocess.Popen(command(arguments), stderr=subprocess.PIPE, text=True, bufsize=1)
    assert process.stderr is not None
    said: list[str] = [] if lines is None else lines
    with process.stderr:
        try:
            for line in process.stderr:
                said.append(line)
                if until in line:
                    break
            assert until in said[-1], "".join(said)
            yield process
        finally:
            process.kill()
            process.wait()


def pids(directory: Path) -> list[int]:
    with connect(directory / "framework") as framework:
        return [device.pid for device in framework.devices()]


def test_a_testbed_has_a_dashboard_restarts_a_killed_device_and_stops_by_sigterm(short_path: Path) -> None:
    lines: list[str] = []
    until = "dashboard: http://127.0.0.1:"
    with running(short_path, "--dashboard-port", "0", until=until, lines=lines) as process:
        address = lines[-1].split()[-1]
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert answer.status == 200
        with connect(short_path / "framework") as framework:
            first = next(device for device in framework.devices() if device.name == "cpu_ref")
            os.kill(first.pid, signal.SIGKILL)
            wait_until(lambda: _serves(Endpoint(short_path / "cpu_ref"), first.pid), "cpu_ref serves again")
            second = next(device for device in framework.devices() if device.name == "cpu_ref")
        assert second.available
        assert second.pid != first.pid
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


def _serves(endpoint: Endpoint, not_this: int) -> bool:
    try:
        with RemoteDevice(endpoint) as device:
            return device.pid != not_this and bool(device.version())
    except NnhalError:
        return False


def test_sigterm_ends_a_start_that_is_under_way(short_path: Path) -> None:
    with running(short_path, until="serves, driver cpu_acc") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 1
    assert not list(short_path.glob("*/*.sock"))


def test_a_port_that_is_taken_costs_only_the_dashboard(short_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with running(short_path, "--dashboard-port", port, until="dashboard: goes without"):
            wait_until(lambda: (short_path / "framework/framework.sock").is_socket(), "the framework serves")
            with connect(short_path / "framework") as framework:
                assert [device.name for device in framework.devices()] == ["cpu_acc", "cpu_ref"]


USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
READS = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
"""May read whatever root can, such as this interpreter, and write nothing more than another user."""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can run it as another user")
def test_a_user_who_is_not_root_has_a_testbed_without_an_option(short_path: Path) -> None:
    runtime, closed = short_path / "runtime", short_path / "closed"
    for folder in (runtime, closed):
        folder.mkdir()
    os.chown(runtime, 65534, 65534)
    short_path.chmod(0o755)
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
    environment.pop("NNHAL_DIRECTORY", None)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        arguments = [*USER, *READS, *command(words)]
        return subprocess.run(arguments, capture_output=True, text=True, env=environment, timeout=120, check=False)

    refused = run("up", "--directory", str(closed / "bed"))
    told = f"nnhal: {closed}/bed: Permission denied; --directory names another directory\n"
    assert (refused.returncode, refused.stderr) == (1, told)
    assert (
        f"{closed}/bed is not there, and user 65534 may not make it in {closed}"
        in run("doctor", "--directory", str(closed / "bed")).stdout
    )
    assert f"{runtime}/nnhal is not there -> 'nnhal up' makes it" in run("doctor").stdout
    up = [*USER, *READS, *command(["up", "--devices=null", "--no-dashboard"])]
    with subprocess.Popen(up, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        try:
            ready = next((line for line in process.stderr if line.startswith("ready:")), "")
            assert ready == f"ready: {runtime}/nnhal/framework\n"
            assert "framework" in run("ps").stdout
        finally:
            process.terminate()
