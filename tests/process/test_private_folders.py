"""Whose folders processes serve in, and whose processes clients send anything to."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, TransportError
from nnhal.link import Link
from nnhal.remote import RemoteDevice
from tests.support.command import command
from tests.support.other_users import GUEST, OTHER_USER, as_other_user, needs_root
from tests.support.processes import device_process
from tests.support.recordings import recordable_device, recording

SECONDS = 120


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["device", "cpu_ref", "--endpoint"],
        ["serve", "--endpoint"],
        ["dashboard", "--port=0", "--directory"],
        ["up", "--no-dashboard", "--directory"],
    ],
)
def test_no_process_serves_in_a_folder_that_others_may_write_to(short_path: Path, words: list[str]) -> None:
    (short_path / "open").mkdir()
    (short_path / "open").chmod(0o777)
    (short_path / "link").symlink_to("open")
    arguments = command([*words, str(short_path / "link")])
    done = subprocess.run(arguments, stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
    assert done.returncode in (1, 2)
    assert f"{short_path}/open: mode 0777 lets others write there" in done.stderr
    assert "Traceback" not in done.stderr
    assert list((short_path / "open").iterdir()) == []


@contextmanager
def served_by_another_user(folder: Path) -> Iterator[socket.socket]:
    """Listen at a folder's link.sock as another user; the folder is this user's, and stays so."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(folder / "link.sock"))
        os.seteuid(OTHER_USER)
        try:
            listener.listen()
        finally:
            os.seteuid(0)
        listener.setblocking(False)
        yield listener


@needs_root
def test_a_client_sends_nothing_to_a_process_of_another_user(short_path: Path) -> None:
    with served_by_another_user(short_path) as listener:
        with pytest.raises(TransportError, match=rf"link\.sock: served by user {OTHER_USER}, expected this one, root"):
            Link(short_path / "link.sock")
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(100) == b""


@needs_root
def test_a_client_takes_a_process_of_a_user_that_it_is_given(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNHAL_SERVER_UIDS", f"1, {OTHER_USER}")
    with served_by_another_user(short_path) as listener:
        with pytest.raises(DeadObjectError):  # it does not answer
            Link(short_path / "link.sock", answer_seconds=0.05)
        connection, _ = listener.accept()
        with connection:
            assert connection.recv(100)


@needs_root
def test_a_client_does_not_even_connect_below_a_folder_of_another_user(short_path: Path) -> None:
    os.chown(short_path, OTHER_USER, OTHER_USER)
    with served_by_another_user(short_path) as listener:
        with pytest.raises(TransportError, match=rf"a folder of user {OTHER_USER}, expected one of user 0"):
            RemoteDevice(Endpoint(short_path), "client")
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_users_that_are_no_numbers_are_refused_in_words(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNHAL_SERVER_UIDS", "nobody")
    with pytest.raises(TransportError, match="NNHAL_SERVER_UIDS 'nobody': expected numbers of users"):
        RemoteDevice(Endpoint(short_path), "client")


@pytest.mark.slow
def test_a_recording_is_for_its_user_alone(short_path: Path) -> None:
    path = short_path / "a.nnrec"
    path.touch()
    path.chmod(0o666)
    with recordable_device(short_path) as endpoint, recording(endpoint, path):
        pass
    assert path.stat().st_mode & 0o7777 == 0o600


GROUP = 65532
AS_CLIENT = """
try:
    with RemoteDevice(Endpoint(Path(sys.argv[1])), "guest") as device:
        print(json.dumps(device.device_type().name))
except Exception as error:
    print(json.dumps(str(error)))
"""
AS_SERVICE = """
os.umask(0o077)
endpoint = Endpoint(Path(sys.argv[1]) / "service")
try:
    endpoint.create()
    for path in (endpoint.rpc, endpoint.link):
        path.touch()
    endpoint.admit_group()
except ValueError as error:
    print(json.dumps(str(error)))
else:
    print(json.dumps([(s.st_gid, s.st_mode & 0o7777) for s in map(os.stat, (endpoint.directory, endpoint.rpc))]))
"""
IMPORTS = "import json, os, sys\nfrom pathlib import Path\nfrom nnhal.endpoint import Endpoint"


def as_client(endpoint: Endpoint, uid: int, group: int) -> str:
    """Return what another user of that group gets of a device: its type, or what the error says."""
    imports = f"{IMPORTS}\nfrom grpc import _channel  # that grpc imports late\nfrom nnhal.remote import RemoteDevice"
    said: str = as_other_user(imports, AS_CLIENT, endpoint.directory, uid=uid, groups=[group])
    return said


@needs_root
@pytest.mark.slow
def test_users_who_are_allowed_open_links_by_a_group(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNHAL_GROUP", str(GROUP))
    monkeypatch.setenv("NNHAL_DEVICE_ALLOWED_UIDS", f"[{GUEST}]")
    short_path.chmod(0o755)
    before = os.umask(0o077)  # as in the units of systemd
    try:
        with device_process("null", short_path / "testbed") as (_, endpoint):
            assert as_client(endpoint, GUEST, GROUP) == "OTHER"
            assert "Permission denied" in as_client(endpoint, GUEST, GROUP - 1)
            assert f"user {OTHER_USER} may not open links here" in as_client(endpoint, OTHER_USER, GROUP)
            for folder in (short_path / "testbed", endpoint.directory):
                assert (folder.stat().st_gid, folder.stat().st_mode & 0o7777) == (GROUP, 0o750)
            for path in (endpoint.rpc, endpoint.link):
                assert (path.stat().st_gid, path.stat().st_mode & 0o7777) == (GROUP, 0o660)
    finally:
        os.umask(before)


@needs_root
def test_a_service_gives_its_folder_only_to_a_group_of_its_own(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(short_path, OTHER_USER, OTHER_USER)
    monkeypatch.setenv("NNHAL_GROUP", str(GROUP))
    said = as_other_user(IMPORTS, AS_SERVICE, short_path)
    refused = f"group {GROUP}: user {OTHER_USER} is not in it, expected a group of that user"
    assert said == f"{refused}; --endpoint names another directory"
    (short_path / "service").rmdir()
    assert as_other_user(IMPORTS, AS_SERVICE, short_path, groups=[GROUP]) == [[GROUP, 0o750], [GROUP, 0o660]]


def test_a_group_that_is_not_known_is_refused_in_words(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNHAL_GROUP", "no such group")
    arguments = command(["device", "null", "--endpoint", str(short_path / "device")])
    done = subprocess.run(arguments, stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
    assert done.returncode in (1, 2)
    assert "NNHAL_GROUP 'no such group': expected the name or the number of a group" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (short_path / "device").exists()
