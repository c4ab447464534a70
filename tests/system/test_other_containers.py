"""A device in a PID namespace of its own, as in a container: the kernel does not say who its clients outside are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import NnhalError
from nnhal.remote.admin import ProcessAdmin
from nnhal.remote.device import RemoteDevice
from tests.support.command import nnhal
from tests.support.waiting import wait_until

_APART = [
    "unshare",
    *(() if os.geteuid() == 0 else ("--user", "--map-current-user")),
    "--pid",
    "--fork",
    "--kill-child",
]
pytestmark = pytest.mark.skipif(
    subprocess.run([*_APART, "true"], capture_output=True).returncode != 0, reason="no PID namespaces can be made here"
)


@dataclass(frozen=True, slots=True)
class ContainedDevice:
    """A device that cannot tell its clients' processes."""

    endpoint: Endpoint
    key: Path
    log: Path


@pytest.fixture(scope="module")
def contained() -> Iterator[ContainedDevice]:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as name:
        directory = Path(name)
        key, log = directory / "admin.key", directory / "log"
        key.touch(0o600)
        key.write_text("a-key-of-at-least-sixteen-characters")
        endpoint = Endpoint(directory / "npu", "device")
        serve = [sys.executable, "-m", "nnhal_devices", "null", "--endpoint", str(endpoint.directory)]
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [*_APART, *serve, "--admin-key", str(key)],
                stderr=stderr,
                env=os.environ | {"NNHAL_DEVICE_LOG_LEVEL": "debug"},
            )
        try:
            wait_until(lambda: process.poll() is not None or _answers(endpoint), "the device serves")
            assert process.poll() is None, log.read_text()
            yield ContainedDevice(endpoint, key, log)
        finally:
            process.kill()  # unshare heeds no SIGTERM while the device runs; the device ends with it
            process.wait()


def _answers(endpoint: Endpoint) -> bool:
    try:
        with RemoteDevice(endpoint, "a first client"):
            return True
    except NnhalError:
        return False


def sessions(contained: ContainedDevice) -> list[dict[str, object]]:
    """What ``nnhal ps --sessions --json`` says."""
    options = ("--directory", str(contained.endpoint.directory.parent), "--admin-key", str(contained.key))
    done = nnhal("ps", "--sessions", "--json", *options)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, object]] = json.loads(done.stdout)["sessions"]
    return found


def test_an_owner_who_cannot_be_told_is_another_container_and_has_its_own_name(contained: ContainedDevice) -> None:
    with RemoteDevice(contained.endpoint, "a camera"):
        (camera,) = [session for session in sessions(contained) if session["client_name"] == "a camera"]
    assert (camera["owner"], camera["pid"], camera["command"]) == ("another container", 0, "")


def test_the_table_for_people_has_no_process_0(contained: ContainedDevice) -> None:
    options = ("--directory", str(contained.endpoint.directory.parent), "--admin-key", str(contained.key))
    with RemoteDevice(contained.endpoint, "a camera"):
        done = nnhal("ps", "--sessions", *options)
    assert "another container" in done.stdout
    assert "process 0" not in done.stdout


def test_the_log_says_which_client_it_was(contained: ContainedDevice) -> None:
    with (
        RemoteDevice(contained.endpoint, "a camera"),
        ProcessAdmin(contained.endpoint, contained.key.read_text()) as admin,
    ):
        camera = next(session for session in admin.process().sessions if session.client_name == "a camera")
        admin.end_session(camera.id)
    assert "a camera, another container" in contained.log.read_text()
    assert "pid=0" not in contained.log.read_text()
