"""A framework whose ports a service manager has opened."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from nnhal_hosting.supervision import Child
from nnhal_service.protocol_settings import HTTP, check_passed, listener_of
from nnhal_service.settings import ServiceSettings
from tests.support.processes import WARM

DIGITS = Path(__file__).parents[2] / "tools/nnhal_tools/demo/data/digits.onnx"
HANDS_OVER = """
import os, sys
count = int(sys.argv[1])
given = [int(text) for text in sys.argv[2].split(",")]
names, arguments = sys.argv[3], sys.argv[4:]
for number, descriptor in enumerate(given, 3):
    os.dup2(descriptor, number)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(count), LISTEN_FDNAMES=names)
os.execv(sys.executable, [sys.executable, "-m", "nnhal_service", *arguments])
"""
"""What a service manager does before it starts a service: the sockets get the numbers from 3 on."""


@contextmanager
def framework(sockets: dict[str, socket.socket], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A framework that gets these sockets."""
    # From 20 on none is overwritten while they get their numbers.
    given = [duplicate(each) for each in sockets.values()]
    names = ":".join(sockets)
    command = [sys.executable, "-c", HANDS_OVER, str(len(given)), ",".join(map(str, given)), names, *arguments]
    try:
        process = subprocess.Popen(command, pass_fds=given, stderr=subprocess.PIPE, text=True)
    finally:
        for descriptor in given:
            os.close(descriptor)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def duplicate(given: socket.socket) -> int:
    """Another descriptor of a socket, with a number of at least 20."""
    return fcntl.fcntl(given.fileno(), fcntl.F_DUPFD_CLOEXEC, 20)


def listening(host: str = "127.0.0.1") -> socket.socket:
    return socket.create_server((host, 0))


def address(given: socket.socket) -> str:
    host, port = given.getsockname()
    return f"http://{host}:{port}"


def ready(url: str) -> bool:
    with urllib.request.urlopen(f"{url}/v2/health/ready", timeout=60) as answer:
        return bool(answer.status == 200)


@pytest.fixture(scope="module")
def arguments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    directory = tmp_path_factory.mktemp("bed")
    (directory / "models/digits/1").mkdir(parents=True)
    shutil.copy(DIGITS, directory / "models/digits/1/model.onnx")
    device = Child("nnhal_devices", ["cpu_acc", "--endpoint", str(directory / "cpu_acc")], zygote=WARM)
    try:
        device.wait_until_ready()
        yield [
            *("--endpoint", str(directory / "framework"), "--device", f"cpu_acc={directory / 'cpu_acc'}"),
            *("--model-repository", str(directory / "models"), "--grpc-port", "0"),
        ]
    finally:
        device.stop()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_requests_that_come_while_no_framework_runs_are_answered_by_the_next_one(
    arguments: list[str], workers: str
) -> None:
    arguments = [*arguments, "--front-workers", workers]
    with ExitStack() as stack:
        http, metrics = stack.enter_context(listening()), stack.enter_context(listening())
        pool = stack.enter_context(ThreadPoolExecutor(1))
        early = pool.submit(ready, address(http))  # the kernel has accepted it; nobody has read it
        with framework({"http": http, "metrics": metrics}, *arguments) as first:
            assert early.result()
            with urllib.request.urlopen(f"{address(metrics)}/metrics", timeout=60) as answer:
                assert b"nnhal_device_up" in answer.read()
            assert first.stderr is not None
            said = {line.strip() for line in (first.stderr.readline() for _ in range(3))}
            assert {f"{name}: {address(each)[7:]}" for name, each in (("http", http), ("metrics", metrics))} <= said
            first.terminate()
            assert first.wait() == 0
        between = pool.submit(ready, address(http))
        with framework({"http": http, "metrics": metrics}, *arguments):
            assert between.result()


def test_without_models_there_is_nothing_to_serve_at_a_socket(tmp_path: Path) -> None:
    with listening() as http, framework({"http": http}, "--endpoint", str(tmp_path / "framework")) as process:
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (
        2,
        "nnhal serve: sockets are passed for http, which needs --model-repository\n",
    )


def settings(**given: Any) -> ServiceSettings:
    return ServiceSettings(**given)


def test_a_socket_that_other_hosts_reach_needs_what_such_an_address_needs() -> None:
    with (
        listening("0.0.0.0") as given,
        pytest.raises(ValueError, match=r"0\.0\.0\.0:\d+ can be reached by other hosts"),
    ):
        listener_of(settings(), HTTP, given)


@pytest.mark.parametrize(
    "name, given, message",
    [
        ("grpc", {}, "a socket with the name 'grpc' is passed, expected one of http, metrics"),
        ("http", {"allow_http": False}, "a socket with the name 'http' is passed, expected one of metrics"),
    ],
)
def test_a_socket_that_no_front_takes_is_refused(name: str, given: dict[str, Any], message: str) -> None:
    with listening() as passed, pytest.raises(ValueError, match=message):
        check_passed(settings(**given), {name: passed})


def test_a_socket_that_does_not_listen_or_is_not_of_tcp_is_refused() -> None:
    with socket.socket() as idle, socket.socket(socket.AF_UNIX) as local:
        for each in (idle, local):
            with pytest.raises(ValueError, match="the socket 'http' that is passed: expected one of TCP that listens"):
                check_passed(settings(), {"http": each})
