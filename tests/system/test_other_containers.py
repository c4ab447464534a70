"""A device in a PID namespace of its own, as in a container: the kernel does not say who its clients outside are."""

from __future__ import annotations

import json
import os
import socket
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
from nnhal.types import ErrorStatus
from tests.support.command import nnhal
from tests.support.leavers import NAME, leaver, reply_in
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


def has_peer_pidfd() -> bool:
    """Return whether the kernel gives a descriptor of the process behind a socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        try:
            os.close(ours.getsockopt(socket.SOL_SOCKET, 77))
        except OSError:
            return False
        return True


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
    """Return the answer of ``nnhal show sessions --json``."""
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


def open_sessions(admin: ProcessAdmin) -> int:
    """Return how many sessions clients have that are about to leave."""
    return sum(session.client_name == NAME for session in admin.process().sessions)


@pytest.fixture
def admin(contained: ContainedDevice) -> Iterator[ProcessAdmin]:
    with ProcessAdmin(contained.endpoint, contained.key.read_text()) as opened:
        yield opened


@pytest.mark.slow
@pytest.mark.skipif(not has_peer_pidfd(), reason="the kernel gives no descriptor of a process in another container")
@pytest.mark.parametrize("way", ["as_later_carried", "as_nested_carried", "as_crosswise_carried"])
def test_a_link_that_waits_in_a_socket_of_the_device_ends_with_its_client(
    contained: ContainedDevice, admin: ProcessAdmin, way: str
) -> None:
    with leaver(way, contained.endpoint.link, contained.endpoint.link) as client:
        replies = [reply_in(line) for line in client.communicate()[0].splitlines()]
    assert {ErrorStatus(reply.refusal.status) for reply in replies} == {ErrorStatus.NONE}
    wait_until(lambda: not open_sessions(admin), "the sessions have ended")


def test_a_session_goes_on_with_a_fork(contained: ContainedDevice, admin: ProcessAdmin) -> None:
    with leaver("forks", contained.endpoint.link) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        assert client.stdout.readline()
        client.wait()
        for _ in range(2):
            print(file=client.stdin, flush=True)
            assert reply_in(client.stdout.readline()).WhichOneof("reply") == "put"
        client.stdin.close()
        wait_until(lambda: not open_sessions(admin), "the session has ended")
