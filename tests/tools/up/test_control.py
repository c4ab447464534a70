"""The supervisor's control socket, with real processes behind it."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError
from nnhal.link import SESSION_METADATA
from nnhal.remote.admin import ProcessAdmin
from nnhal.remote.supervisor import SupervisorControl, supervisor_endpoint
from nnhal.v1 import supervisor_pb2 as wire
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from nnhal_tools.up.control import controlled
from tests.support.idle_calls import complete, is_healthy
from tests.support.waiting import wait_for_death, wait_until


def methods_of(address: str) -> list[str]:
    """Full names, as gRPC calls them."""
    with grpc.insecure_channel(address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        pool = DescriptorPool(database)
        return [
            f"/{service}/{method.name}"
            for service in database.get_services()
            for method in pool.FindServiceByName(service).methods
        ]


State = wire.SupervisedProcess
TOPOLOGY = Topology(
    device=(DeviceEntry(driver="null", name="first"), DeviceEntry(driver="null", name="second")),
    dashboard={"no_such_option": 1},
)

ASKS = """
import sys
from pathlib import Path
from nnhal.errors import HalError
from nnhal.remote.supervisor import SupervisorControl
with SupervisorControl(Path(sys.argv[1])) as control:
    try:
        print(control.admin_key())
    except HalError as error:
        print(error.message)
"""
IN_A_PID_NAMESPACE_BELOW = [
    "unshare",
    *(() if os.geteuid() == 0 else ("--user", "--map-current-user")),
    "--pid",
    "--fork",
]


@pytest.fixture(scope="module")
def testbed() -> Iterator[Testbed]:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        bed = Testbed(TOPOLOGY, Path(directory))
        with controlled(bed):
            yield bed


@pytest.fixture
def control(testbed: Testbed) -> Iterator[SupervisorControl]:
    with SupervisorControl(testbed.directory) as session:
        yield session


def process_of(control: SupervisorControl, name: str) -> wire.SupervisedProcess:
    return next(process for process in control.processes().processes if process.name == name)


def events_of(control: SupervisorControl, name: str, after: int = 0) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in control.events(after) if event.subject == name]


@pytest.mark.parametrize("process", ["device", "framework", "supervisor"])
def test_who_has_no_link_is_answered_by_health_and_reflection_only(testbed: Testbed, process: str) -> None:
    """A group may reach the sockets (NNHAL_GROUP), and not all of its users may open links."""
    endpoint = {
        "device": testbed.endpoint("first"),
        "framework": Endpoint(testbed.framework, "framework"),
        "supervisor": supervisor_endpoint(testbed.directory),
    }[process]
    methods = [method for method in methods_of(endpoint.address) if not method.startswith("/grpc.")]
    assert len(methods) > 10
    with grpc.insecure_channel(endpoint.address) as channel:
        for method, metadata in itertools.product(methods, [(), ((SESSION_METADATA, "f" * 64),)]):
            with pytest.raises(grpc.RpcError) as caught:
                complete(method, b"", metadata)(channel).result(60)
            call: Any = caught.value
            assert call.code() == grpc.StatusCode.INVALID_ARGUMENT, method
            assert "the call needs the token of an open link" in call.details()
    assert is_healthy(endpoint.address)


def test_processes_are_listed_in_the_order_of_the_topology(testbed: Testbed, control: SupervisorControl) -> None:
    answer = control.processes()
    assert [(p.name, p.kind, p.driver) for p in answer.processes] == [
        ("first", "device", "null"),
        ("second", "device", "null"),
        ("framework", "framework", ""),
        ("dashboard", "dashboard", ""),
    ]
    assert answer.directory == str(testbed.directory)
    first = answer.processes[0]
    assert (first.state, first.pid) == (State.STATE_RUNNING, testbed.pid("first"))
    assert first.directory == str(testbed.directory / "first")
    assert "nnhal_devices" in first.command
    wait_until(lambda: "null" in control.processes().drivers, "the drivers are known")


def test_a_dashboard_that_does_not_start_hinders_nothing(control: SupervisorControl) -> None:
    wait_until(lambda: process_of(control, "dashboard").state == State.STATE_STOPPED, "the dashboard has ended")
    assert "no-such-option" in process_of(control, "dashboard").last_end
    with pytest.raises(HalError, match="no-such-option"):
        control.start("dashboard")
    with pytest.raises(HalError, match="dashboard has no work that could end"):
        control.drain("dashboard")


def test_a_killed_process_is_started_again_and_its_end_is_told_in_words(control: SupervisorControl) -> None:
    before = process_of(control, "first")
    known = len(control.events())
    assert control.kill("first") == before.pid
    wait_until(lambda: process_of(control, "first").restarts == before.restarts + 1, "it serves again")
    after = process_of(control, "first")
    assert (after.state, after.last_end) == (State.STATE_RUNNING, f"process {before.pid} was killed by SIGKILL")
    killed, died, started = events_of(control, "first", known)
    assert killed == ("killed", f"process {before.pid} was sent SIGKILL by an operator")
    assert died == ("died", f"process {before.pid} was killed by SIGKILL; starting it again in 0.2 s")
    assert started == ("started", f"process {after.pid} serves")


def test_a_stopped_process_stays_so_until_it_is_started(control: SupervisorControl) -> None:
    before = process_of(control, "second")
    control.stop("second")
    wait_for_death(before.pid)
    stopped = process_of(control, "second")
    assert (stopped.state, stopped.pid) == (State.STATE_STOPPED, 0)
    with pytest.raises(HalError, match="second is stopped already"):
        control.stop("second")
    with pytest.raises(HalError, match="second does not run, so it cannot get SIGTERM"):
        control.kill("second", signal.SIGTERM)
    with pytest.raises(HalError, match="second does not run, so it cannot be drained"):
        control.drain("second")
    started = control.start("second")
    assert (started.state, started.restarts) == (State.STATE_RUNNING, before.restarts)
    with pytest.raises(HalError, match=f"second runs already, as process {started.pid}"):
        control.start("second")


def test_a_process_is_restarted_by_hand(control: SupervisorControl) -> None:
    before = process_of(control, "second")
    after = control.restart("second")
    assert (after.state, after.restarts) == (State.STATE_RUNNING, before.restarts)
    assert after.pid not in (0, before.pid)
    wait_for_death(before.pid)


def test_a_process_that_fails_to_start_can_be_stopped_between_two_attempts(
    testbed: Testbed, control: SupervisorControl
) -> None:
    directory = testbed.directory / "second"
    shutil.rmtree(directory)
    directory.write_text("in the way")
    control.kill("second")
    try:
        wait_until(lambda: process_of(control, "second").last_end.startswith("nnhal_devices null"), "it has failed")
        assert process_of(control, "second").state in (State.STATE_WAITING, State.STATE_STARTING)
        control.stop("second")
        assert process_of(control, "second").state == State.STATE_STOPPED
        with pytest.raises(HalError, match="ended with status 2"):
            control.start("second")
    finally:
        directory.unlink()
    assert control.start("second").state == State.STATE_RUNNING


def test_one_thing_is_done_with_a_process_at_a_time(testbed: Testbed, control: SupervisorControl) -> None:
    with testbed.process("second").command("restarted"), pytest.raises(HalError) as error:
        control.stop("second")
    assert error.value.message == "second is being restarted; it can be stopped when that has ended"
    assert process_of(control, "second").state == State.STATE_RUNNING


def test_wrong_arguments_are_refused_with_what_was_expected(control: SupervisorControl) -> None:
    known = "there are first, second, framework, dashboard"
    for ask in (control.start, control.stop, control.restart, control.kill, control.drain, control.remove_device):
        with pytest.raises(HalError, match=f"INVALID_ARGUMENT: no process is called 'third'; {known}"):
            ask("third")
    with pytest.raises(HalError, match="signal 1000, expected one of this system"):
        control.kill("first", 1000)
    with pytest.raises(HalError, match="second is in the topology"):
        control.remove_device("second")
    with pytest.raises(HalError, match="lines after -1, at most 0; expected no negative numbers"):
        control.logs(after=-1)
    with pytest.raises(HalError, match="expected 0 to 3600"):
        control.drain("first", -1.0)


@pytest.mark.parametrize(
    ("driver", "name", "problem"),
    [
        ("null", "../up", "a device to start: name: String should match pattern"),
        ("", "x", "a device to start: driver: String should match pattern"),
        ("null", "first", "device name 'first': expected another than first, second"),
        ("null", "supervisor", "device name 'supervisor': expected one that is not a process of another kind"),
        ("bogus", "", "no driver is called 'bogus'"),
    ],
)
def test_a_device_that_cannot_be_started_leaves_nothing(
    control: SupervisorControl, driver: str, name: str, problem: str
) -> None:
    with pytest.raises(HalError, match=problem):
        control.start_device(driver, name)
    assert len(control.processes().processes) == 4


def test_the_lines_of_dead_processes_are_kept(testbed: Testbed, control: SupervisorControl) -> None:
    with ProcessAdmin(testbed.endpoint("first"), control.admin_key()) as admin:
        admin.set_log_level("debug")
    with ProcessAdmin(testbed.endpoint("first")):
        pass
    wait_until(lambda: bool(control.logs("first").lines), "it has logged a link")
    control.restart("first")
    lines = [line for line in control.logs("first").lines if line.level == "debug"]
    assert any("link opened" in line.text for line in lines)
    assert {line.process for line in lines} == {"first"}
    assert not control.logs("first", after=control.logs().last).lines


def test_the_key_of_the_supervisor_is_that_of_its_processes(testbed: Testbed, control: SupervisorControl) -> None:
    for endpoint in (testbed.endpoint("first"), testbed.endpoint("second")):
        with ProcessAdmin(endpoint, control.admin_key()) as admin:
            assert admin.process().is_whole


def test_the_control_socket_ends_with_the_testbed(short_path: Path) -> None:
    bed = Testbed(Topology(device=(DeviceEntry(driver="null", name="bad", options={"no": 1}),)), short_path)
    with pytest.raises(Exception, match="bad") as error, controlled(bed):
        raise AssertionError("the device has started")
    assert "ended with status" in str(error.value)
    with pytest.raises(DeadObjectError):
        SupervisorControl(short_path)
    assert not list(short_path.glob("*/*.sock"))


@pytest.mark.skipif(
    subprocess.run([*IN_A_PID_NAMESPACE_BELOW, "true"], capture_output=True, check=False).returncode != 0,
    reason="PID namespaces cannot be made here",
)
def test_a_container_of_the_same_user_gets_no_key_though_the_supervisor_sees_its_processes(testbed: Testbed) -> None:
    command = [*IN_A_PID_NAMESPACE_BELOW, sys.executable, "-c", ASKS, str(testbed.directory)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "only processes of the supervisor's own PID namespace may ask it" in said
    assert testbed.admin_key not in said


def test_an_option_that_no_command_line_can_carry_is_refused(control: SupervisorControl) -> None:
    with pytest.raises(HalError, match=r"INVALID_ARGUMENT.*options\.a.*zero byte"):
        control.start_device("null", "third", options={"a": "x\0y"})
