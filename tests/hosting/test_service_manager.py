from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from nnhal_hosting.service_manager import SERVES, notify_manager, passed_sockets
from tests.support.waiting import SECONDS


def manager(address: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(address)
    listener.settimeout(SECONDS)
    return listener


def test_a_manager_hears_that_a_process_serves(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, address in (
        (str(short_path / "notify"), str(short_path / "notify")),
        (f"@nnhal-test-{os.getpid()}", f"\0nnhal-test-{os.getpid()}"),
    ):
        with manager(address) as listener:
            monkeypatch.setenv("NOTIFY_SOCKET", name)
            notify_manager(SERVES)
            assert listener.recv(100) == b"READY=1"


def test_without_a_manager_nobody_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify_manager(SERVES)


def test_a_manager_that_does_not_listen_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere/notify")
    with pytest.raises(OSError, match="does not listen at NOTIFY_SOCKET '/nowhere/notify'"):
        notify_manager(SERVES)


def test_a_manager_with_a_watchdog_is_told_again_and_again_that_a_device_works(short_path: Path) -> None:
    command = [sys.executable, "-m", "nnhal_devices", "null", "--endpoint", str(short_path / "npu")]
    with manager(str(short_path / "notify")) as listener:
        watched = {"NOTIFY_SOCKET": str(short_path / "notify"), "WATCHDOG_USEC": "40000"}
        with subprocess.Popen(command, env=os.environ | watched) as device:
            try:
                assert [listener.recv(100) for _ in range(3)] == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]
            finally:
                device.kill()


def test_a_device_tells_when_it_serves_and_when_it_ends(short_path: Path) -> None:
    command = [sys.executable, "-m", "nnhal_devices", "null", "--endpoint", str(short_path / "npu")]
    with manager(str(short_path / "notify")) as listener:
        environment = os.environ | {"NOTIFY_SOCKET": str(short_path / "notify")}
        with subprocess.Popen(command, env=environment) as device:
            assert listener.recv(100) == b"READY=1"
            assert (short_path / "npu/device.sock").is_socket()
            device.terminate()
            assert listener.recv(100) == b"STOPPING=1"
        assert device.returncode == 0


def test_a_device_serves_though_the_manager_of_its_environment_is_gone(short_path: Path) -> None:
    command = [sys.executable, "-m", "nnhal_devices", "null", "--endpoint", str(short_path / "npu")]
    environment = os.environ | {"NOTIFY_SOCKET": "/nowhere/notify"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as device:
        assert device.stderr is not None
        assert "does not listen at NOTIFY_SOCKET" in device.stderr.readline()
        device.terminate()
    assert device.returncode == 0


def test_sockets_of_another_process_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTEN_PID", str(os.getppid()))
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setenv("LISTEN_FDNAMES", "http")
    assert passed_sockets() == {}


@pytest.mark.parametrize(
    "count, names, message",
    [
        ("two", "http", "LISTEN_FDS 'two', expected a number"),
        ("2", "http", "LISTEN_FDNAMES 'http', expected 2 different names"),
        ("2", "http:http", "LISTEN_FDNAMES 'http:http', expected 2 different names"),
        ("1", "", "LISTEN_FDNAMES '', expected 1 different names"),
    ],
)
def test_malformed_sockets_are_refused(count: str, names: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LISTEN_PID", str(os.getpid())), ("LISTEN_FDS", count), ("LISTEN_FDNAMES", names)):
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=message):
        passed_sockets()
