"""Checks of sockets, on real directories, sockets and processes."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal_tools.doctor.finding import DoctorFinding, Status
from nnhal_tools.doctor.sockets import ListeningSocket, check_directory, check_health, check_sockets, listener_of
from tests.support.other_users import GUEST, OTHER_USER, needs_root


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


@pytest.mark.slow
def test_a_process_that_speaks_no_health_fails(short_path: Path) -> None:
    path = short_path / "device.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(str(path))
        silent.listen()
        finding = check_health(path)
    assert finding.status is Status.FAIL and "no answer" in finding.message


@contextmanager
def link_in(directory: Path, mode: int, user: int = -1, group: int = -1) -> Iterator[None]:
    folder = directory / "device"
    folder.mkdir()
    os.chown(folder, user, group)
    folder.chmod(mode)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(folder / "link.sock"))
        listening.listen()
        yield


def only_finding(directory: Path) -> DoctorFinding:
    (finding,), _ = check_sockets(directory)
    return finding


def test_a_folder_that_a_group_may_enter_is_well_if_that_group_is_named(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with link_in(short_path, 0o750):
        finding = only_finding(short_path)
        assert finding.status is Status.WARN and "NNHAL_GROUP" in finding.todo
        monkeypatch.setenv("NNHAL_GROUP", str(short_path.stat().st_gid))
        assert only_finding(short_path).status is Status.OK
        (short_path / "device").chmod(0o770)
        assert only_finding(short_path).status is Status.WARN


@needs_root
def test_a_folder_of_another_user_fails_unless_that_user_is_to_serve(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with link_in(short_path, 0o750, OTHER_USER, GUEST):
        finding = only_finding(short_path)
        assert finding.status is Status.FAIL and f"is of user {OTHER_USER}" in finding.message
        assert f"NNHAL_SERVER_UIDS={OTHER_USER}" in finding.todo
        monkeypatch.setenv("NNHAL_SERVER_UIDS", str(OTHER_USER))
        assert only_finding(short_path).status is Status.OK
        (short_path / "device").chmod(0o755)
        assert only_finding(short_path).status is Status.WARN


def test_a_variable_that_names_nobody_is_told(cpu_ref: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNHAL_SERVER_UIDS", "nnhal")
    findings, _ = check_sockets(cpu_ref.directory.parent)
    assert findings[0].status is Status.FAIL and "NNHAL_SERVER_UIDS 'nnhal': expected numbers" in findings[0].message
