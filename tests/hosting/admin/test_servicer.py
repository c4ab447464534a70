"""AdminService of a device process: who sees what, and who may do what."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from nnhal.admin import EXIT_STATUS
from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, TransportError
from nnhal.link import Link
from nnhal.remote import RemoteDevice
from nnhal.remote.admin import DeviceAdmin, ProcessAdmin
from nnhal.types import ErrorStatus
from nnhal.v1 import admin_pb2 as wire
from nnhal_hosting.supervision import Child
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.bystanders import bystander
from tests.support.idle_calls import is_healthy
from tests.support.processes import device_process
from tests.support.refusals import INVALID, refusal
from tests.support.resources import resources_of
from tests.support.waiting import wait_until

OTHER_USER = 65534
SESSIONS = 8
MOST_OF_ONE = SESSIONS - SESSIONS // 8
RPC_THREADS = 2
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of others")


@dataclass(frozen=True)
class Running:
    """A device process that its supervisor has given a key."""

    child: Child
    endpoint: Endpoint

    def operator(self, key: str | None = None) -> DeviceAdmin:
        return DeviceAdmin(self.endpoint, self.child.admin_key if key is None else key, "operator")


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="nnhal-") as directory,
    ):
        patch.setenv("NNHAL_DEVICE_RPC_THREADS", str(RPC_THREADS))
        patch.setenv("NNHAL_DEVICE_MAX_SESSIONS", str(SESSIONS))
        patch.setenv("NNHAL_DEVICE_ALLOWED_UIDS", f"[{OTHER_USER}]")
        with device_process("cpu_ref", Path(directory)) as (child, endpoint):
            yield Running(child, endpoint)


@pytest.fixture
def operator(running: Running) -> Iterator[DeviceAdmin]:
    with running.operator() as admin:
        wait_until(lambda: len(admin.process().sessions) == 1, "the sessions of other tests have ended")
        yield admin


@pytest.fixture
def client(running: Running) -> Iterator[ProcessAdmin]:
    with ProcessAdmin(running.endpoint, client_name="client") as admin:
        yield admin


def own(process: wire.GetProcessResponse) -> str:
    """The public id of the session of a call."""
    (session,) = [session for session in process.sessions if session.is_own]
    return session.id


def refused(call: Callable[[], object], message: str) -> None:
    refusal(call, ErrorStatus.GENERAL_FAILURE, message)


def test_an_operator_sees_the_process_and_who_uses_it(
    running: Running, operator: DeviceAdmin, client: ProcessAdmin
) -> None:
    process = operator.process()
    assert (process.name, process.kind, process.pid) == ("cpu_ref", "device", running.child.pid)
    assert process.supervisor == wire.SUPERVISOR_NNHAL
    assert process.is_whole
    assert process.log_level == "warning"
    assert 0 < process.started_ns < process.at_ns <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert process.usage.descriptors > 0
    assert [session.client_name for session in process.sessions] == ["operator", "client"]
    first, second = process.sessions
    assert first.is_own and not second.is_own
    assert second.id != first.id
    assert (second.pid, second.uid) == (os.getpid(), os.geteuid())
    assert second.command == Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode()
    assert process.started_ns < first.opened_ns < second.opened_ns < process.at_ns


def test_objects_are_counted_by_session(running: Running, operator: DeviceAdmin) -> None:
    with RemoteDevice(running.endpoint, "user") as device:
        prepared = device.prepare_model(addition_model())
        additions = [addition_in_ashmem() for _ in range(2)]
        executions = [prepared.create_reusable_execution(addition.request) for addition in additions]
        _, user = operator.process().sessions
        assert {entry.kind: entry.count for entry in user.objects} == {"prepared model": 1, "execution": 2}
        assert user.descriptors == len(additions)
        executions.pop().release()
        _, user = operator.process().sessions
        assert {entry.kind: entry.count for entry in user.objects} == {"prepared model": 1, "execution": 1}


def test_a_client_without_the_key_sees_itself_only(operator: DeviceAdmin, client: ProcessAdmin) -> None:
    process = client.process()
    assert not process.is_whole
    assert [(session.client_name, session.is_own) for session in process.sessions] == [("client", True)]
    assert len(operator.process().sessions) == 2


def test_a_client_without_the_key_changes_nothing(operator: DeviceAdmin, client: ProcessAdmin) -> None:
    session = own(operator.process())
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: client.end_session(session), "end a session of another client"),
        (client.drain, "drain the process"),
        (client.exit, "end the process"),
        (lambda: client.set_log_level("debug"), "change the level of the log"),
        (client.log_lines, "read the log"),
    ]
    for call, act in calls:
        refused(call, f"only an operator may {act}: the call has no admin key")
    process = operator.process()
    assert (process.log_level, process.draining, len(process.sessions)) == ("warning", False, 2)


def test_a_client_cannot_learn_which_sessions_there_are(client: ProcessAdmin) -> None:
    refused(lambda: client.end_session("s999999"), "only an operator may end a session of another client")


def test_a_wrong_key_is_refused(running: Running, operator: DeviceAdmin) -> None:
    for key in ("x" * 64, running.child.admin_key[:-1], running.child.admin_key + "0", running.child.admin_key.upper()):
        with running.operator(key) as intruder:
            refused(intruder.process, "the admin key in metadata nnhal-admin-key is not that of this process")
            refused(intruder.exit, "the admin key in metadata nnhal-admin-key is not that of this process")
    assert operator.process().is_whole


def test_a_key_without_a_session_is_refused(running: Running, operator: DeviceAdmin) -> None:
    operator.process()
    session = operator.process().sessions[0].id
    with running.operator() as other:
        other.end_session(own(other.process()))
        with pytest.raises(DeadObjectError, match=r"the session has ended: .*the call needs the token of an open link"):
            other.end_session(session)


OPERATOR_OF_ANOTHER_USER = """
import os, sys
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.remote.admin import ProcessAdmin
from pathlib import Path
try:  # whatever is imported on the way, while this user may still read it
    with ProcessAdmin(Endpoint(Path(sys.argv[1])), 64 * "0") as nobody:
        nobody.process()
except HalError:
    pass
os.setgroups([])
os.setuid(int(sys.argv[2]))
with ProcessAdmin(Endpoint(Path(sys.argv[1])), sys.stdin.read()) as admin:
    for call in (admin.process, admin.exit):
        try:
            call()
        except HalError as error:
            print(error.message)
with ProcessAdmin(Endpoint(Path(sys.argv[1]))) as client:
    print(len(client.process().sessions))
"""


@needs_root
def test_the_key_does_not_count_in_the_hands_of_another_user(running: Running, operator: DeviceAdmin) -> None:
    running.endpoint.directory.parent.chmod(0o755)
    running.endpoint.directory.chmod(0o755)
    for socket in running.endpoint.directory.iterdir():
        socket.chmod(0o666)
    done = subprocess.run(
        [sys.executable, "-c", OPERATOR_OF_ANOTHER_USER, str(running.endpoint.directory), str(OTHER_USER)],
        input=running.child.admin_key,
        capture_output=True,
        text=True,
        check=True,
    )
    said = f"an admin key counts for user 0 only, who runs the process; the call is of {OTHER_USER}"
    assert done.stdout.splitlines() == [said, said, "1"]
    assert operator.process().is_whole


def test_a_session_that_an_operator_ends_is_released_and_no_other_is_harmed(
    running: Running, operator: DeviceAdmin
) -> None:
    with bystander(running.endpoint) as other:
        wait_until(lambda: other.runs > 0, "the other client executes")
        before = resources_of(running.child.pid).memfd_mappings
        with RemoteDevice(running.endpoint, "victim") as victim:
            addition = addition_in_ashmem()
            execution = victim.prepare_model(addition_model()).create_reusable_execution(addition.request)
            addition.check(execution.execute, 1, 2)
            assert resources_of(running.child.pid).memfd_mappings > before
            (session,) = [session for session in operator.process().sessions if session.client_name == "victim"]
            operator.end_session(session.id)
            assert session.id not in [left.id for left in operator.process().sessions]
            with pytest.raises(DeadObjectError):
                execution.execute()
            with pytest.raises(DeadObjectError):
                victim.prepare_model(addition_model())
            wait_until(lambda: resources_of(running.child.pid).memfd_mappings == before, "its memory is released")
            refusal(lambda: operator.end_session(session.id), INVALID, f"there is no session '{session.id}'")


def test_a_client_may_end_its_own_session(operator: DeviceAdmin, client: ProcessAdmin) -> None:
    client.end_session(own(client.process()))
    assert client.gone
    assert [session.client_name for session in operator.process().sessions] == ["operator"]


def test_an_execution_that_does_not_exist_cannot_be_cancelled(operator: DeviceAdmin, client: ProcessAdmin) -> None:
    for admin in (operator, client):
        refusal(partial(admin.cancel_execution, "e0"), INVALID, "'e0'")


def test_an_operator_gets_in_when_a_client_has_taken_all_sessions_that_it_may(running: Running) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(Link(running.endpoint.link, "greedy")) for _ in range(MOST_OF_ONE)]
        for key in ("", "x" * 64):
            with pytest.raises(
                TransportError, match=f"has {MOST_OF_ONE} links, and the last 1 of {SESSIONS} are for others"
            ):
                Link(running.endpoint.link, "one more", admin_key=key)
        with running.operator() as operator:
            sessions = operator.process().sessions
            assert [session.client_name for session in sessions] == [*["greedy"] * MOST_OF_ONE, "operator"]
            operator.end_session(sessions[0].id)
            wait_until(lambda: clients[0].hung_up, "the client has lost its link")


def test_the_level_of_the_log_is_changed_and_its_lines_are_read(operator: DeviceAdmin, client: ProcessAdmin) -> None:
    before = operator.log_lines().last
    operator.set_log_level("debug")
    try:
        assert client.process().log_level == "debug"
        client.end_session(own(client.process()))
        answer = operator.log_lines(before)
        (line,) = [line for line in answer.lines if line.text.startswith("link ended by an operator")]
        assert (line.process, line.level, line.request_id) == ("cpu_ref", "info", "")
        assert abs(time.time_ns() - line.at_ns) < 600e9
        assert [line.number for line in answer.lines] == list(range(before + 1, answer.last + 1))
        assert len(operator.log_lines(before, most=1).lines) == 1
    finally:
        operator.set_log_level("warning")
    refusal(lambda: operator.set_log_level("loud"), INVALID, "log level 'loud', expected one of debug, info, warning")
    refusal(lambda: operator.log_lines(-1), INVALID, "lines after -1")


def test_the_key_is_in_no_argument_and_in_no_environment(running: Running) -> None:
    for file in ("cmdline", "environ"):
        assert running.child.admin_key.encode() not in Path(f"/proc/{running.child.pid}/{file}").read_bytes()


def test_a_process_that_an_operator_ends_asks_to_be_started_again(short_path: Path) -> None:
    key = short_path / "key"
    key.write_text("of-a-file" * 4)
    key.chmod(0o600)
    with device_process("null", short_path, "--admin-key", str(key)) as (child, endpoint):
        with DeviceAdmin(endpoint, "of-a-file" * 4) as operator:
            operator.exit()
        assert child.process.wait(30) == EXIT_STATUS
        assert list(endpoint.directory.iterdir()) == []


def test_a_key_file_that_others_may_read_keeps_the_process_from_starting(short_path: Path) -> None:
    key = short_path / "key"
    key.write_text("k" * 20)
    key.chmod(0o644)
    command = [sys.executable, "-m", "nnhal_devices", "null", "--endpoint", str(short_path), "--admin-key", str(key)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"nnhal device: {key}: mode 0644, expected 0600 or 0400\n"


def test_a_process_without_a_key_has_no_operators(short_path: Path) -> None:
    command = [sys.executable, "-m", "nnhal_devices", "null", "--endpoint", str(short_path)]
    with subprocess.Popen(command) as process:
        try:
            wait_until(Endpoint(short_path).rpc.exists, "the process listens")
            wait_until(lambda: is_healthy(Endpoint(short_path).address), "the process serves")
            with ProcessAdmin(Endpoint(short_path), "k" * 20) as admin:
                refused(admin.process, "the process has no admin key: it was started without a supervisor")
            with ProcessAdmin(Endpoint(short_path)) as client:
                assert client.process().supervisor == wire.SUPERVISOR_UNSPECIFIED
        finally:
            process.terminate()
    assert process.returncode == 0
