"""Checks of sockets, on real directories, sockets and processes."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

from nnhal.endpoint import Endpoint
from nnhal_tools.doctor.finding import Status
from nnhal_tools.doctor.sockets import ListeningSocket, check_directory, check_health, check_sockets, listener_of


def test_a_directory_of_ones_own_is_well(short_path: Path) -> None:
    short_path.chmod(stat.S_IRWXU)
    (finding,) = check_directory(short_path)
    assert finding.status is Status.OK and "mode 700" in finding.message


def test_a_directory_that_is_not_there_says_what_makes_it(short_path: Path) -> None:
    (finding,) = check_directory(short_path / "none")
    assert finding.status is Status.WARN and "nnhal up" in finding.todo


def test_a_file_is_no_directory(short_path: Path) -> None:
    (short_path / "file").touch()
    (finding,) = check_directory(short_path / "file")
    assert finding.status is Status.FAIL


def test_others_must_not_write_where_the_sockets_are(short_path: Path) -> None:
    short_path.chmod(0o777)
    (finding,) = check_directory(short_path)
    assert finding.status is Status.WARN and finding.todo == f"chmod 700 {short_path}"


def test_a_path_too_long_for_a_socket_fails(short_path: Path) -> None:
    directory = short_path / ("d" * (107 - len(str(short_path)) - len("//framework/inference.sock")))
    directory.mkdir(mode=0o700)
    assert [finding.status for finding in check_directory(directory)] == [Status.OK]
    longer = directory.with_name(directory.name + "d")
    longer.mkdir(mode=0o700)
    assert [finding.status for finding in check_directory(longer)] == [Status.FAIL, Status.OK]


def test_a_socket_without_its_process_is_stale(short_path: Path) -> None:
    (short_path / "device").mkdir(mode=0o700)
    path = short_path / "device" / "device.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as gone:
        gone.bind(str(path))
        gone.listen()
    findings, listeners = check_sockets(short_path)
    assert [finding.status for finding in findings] == [Status.WARN]
    assert "stale" in findings[0].message and str(path) in findings[0].todo
    assert listeners == []


def test_a_running_process_is_alive_and_healthy(cpu_ref: Endpoint) -> None:
    findings, listeners = check_sockets(cpu_ref.directory.parent)
    assert {finding.check for finding in findings} == {
        "socket cpu_ref/device.sock",
        "health cpu_ref/device.sock",
        "socket cpu_ref/link.sock",
    }
    assert {finding.status for finding in findings} == {Status.OK}
    found = listener_of(cpu_ref.rpc)
    assert isinstance(found, ListeningSocket) and {listener.pid for listener in listeners} == {found.pid}


def test_a_process_that_speaks_no_health_fails(short_path: Path) -> None:
    path = short_path / "device.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(str(path))
        silent.listen()
        finding = check_health(path)
    assert finding.status is Status.FAIL and "no answer" in finding.message
