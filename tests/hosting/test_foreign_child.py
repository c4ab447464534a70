"""Supervised processes of other programs: how they say that they serve, how they end, and what they are told."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from nnhal_hosting.foreign_child import ForeignChild
from nnhal_hosting.supervision import StartError
from tests.support.foreign_command import foreign_command
from tests.support.waiting import wait_for_death

NOBODY = os.eventfd(0)
"""A descriptor that never becomes readable."""
SIGNS = "import os, time; os.write(int(os.environ['NNHAL_SUPERVISOR']), {!r}); time.sleep({})"
HOLDER = """
import sys
from pathlib import Path
from nnhal.endpoint import Endpoint
from nnhal_hosting.foreign_child import ForeignChild
child = ForeignChild(["sleep", "1000"], "npu", Endpoint(Path(sys.argv[1]) / "npu"))
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("options", [(), ("--plain",)])
def test_a_program_serves_when_it_says_so_or_its_device_answers(short_path: Path, options: tuple[str, ...]) -> None:
    heard: list[str] = []
    endpoint = Endpoint(short_path / "npu")
    child = ForeignChild(foreign_command(*options), "npu", endpoint, heard=heard.append)
    try:
        child.wait_until_ready()
        with RemoteDevice(endpoint) as device:
            assert device.pid == child.pid
    finally:
        assert child.stop(60) == 0
    assert heard == ["serves as npu\n"]


def test_a_program_finds_its_directory_name_and_descriptor_in_its_words_and_its_environment(short_path: Path) -> None:
    script = 'echo "$@"; echo $NNHAL_ENDPOINT $NNHAL_NAME $NNHAL_SUPERVISOR; read key <&$NNHAL_SUPERVISOR; echo $key'
    words = ["bash", "-c", script, "me", "--at={endpoint}", "{name}", "{supervisor}", "{other}"]
    child = ForeignChild(words, "npu", Endpoint(short_path / "npu"), "the-key-of-a-testbed")
    child.process.wait()
    child.stop()
    first, second, key = child.said().splitlines()
    place, name, number = second.split()
    assert key == "the-key-of-a-testbed"
    assert (place, name) == (str(short_path / "npu"), "npu") and int(number) > 2
    assert first == f"--at={place} npu {number} {{other}}"


def test_a_program_that_cannot_be_run_or_ends_is_told_with_its_words(short_path: Path) -> None:
    endpoint = Endpoint(short_path / "npu")
    with pytest.raises(FileNotFoundError, match="no such program, or it may not be executed: '/nowhere/npu'"):
        ForeignChild(["/nowhere/npu"], "npu", endpoint)
    child = ForeignChild(["sh", "-c", "echo no accelerator is there; exit 3"], "npu", endpoint)
    with pytest.raises(StartError, match=r"ended with status 3: no accelerator is there$"):
        child.wait_until_ready()


def test_a_program_that_does_not_serve_is_told_with_what_is_missing_and_ended(short_path: Path) -> None:
    child = ForeignChild(["sleep", "1000"], "npu", Endpoint(short_path / "npu"))
    missing = "did not serve at .*/npu within 0 s: there is no device.sock and no link.sock$"
    with pytest.raises(StartError, match=missing):
        child.wait_until_ready(0.2)
    assert child.process.poll() == -signal.SIGTERM


def test_only_a_program_that_has_given_signs_of_life_can_hang(short_path: Path) -> None:
    def hung(said: bytes, seconds: float) -> bool:
        words = [sys.executable, "-c", SIGNS.format(said, seconds)]
        child = ForeignChild(words, "npu", Endpoint(short_path / "npu"), hang_seconds=0.3)
        try:
            child.wait_until_ready()
            assert child.await_end(NOBODY)
        finally:
            child.stop()
        return child.hung

    assert hung(b"RW", 1000)
    assert not hung(b"R", 1)


def test_a_program_dies_with_its_supervisor(short_path: Path) -> None:
    words = [sys.executable, "-c", HOLDER, str(short_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        pid = int(holder.stdout.readline())
        holder.kill()
        wait_for_death(pid)


def test_sockets_of_the_dead_are_removed_and_those_of_the_living_are_left(short_path: Path) -> None:
    endpoint = Endpoint(short_path / "npu")
    endpoint.create()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(str(endpoint.link))
    ForeignChild(["sleep", "1000"], "npu", endpoint).stop()
    assert not endpoint.link.exists()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as living:
        living.bind(str(endpoint.link))
        living.listen()
        with pytest.raises(OSError, match=r"another process is serving at .*/npu/link\.sock"):
            ForeignChild(["sleep", "1000"], "npu", endpoint)
        assert endpoint.link.exists()
