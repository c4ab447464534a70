"""Devices that the framework registers, and those that it uses later."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog
from structlog.typing import EventDict

from nnhal.codec import capabilities_to_wire
from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError, MissingMethodError, TransportError
from nnhal.remote import DeviceIdentity, RemoteDevice
from nnhal.types import DeviceType, ErrorStatus, NumberOfCacheFiles
from nnhal.v1 import backend_pb2, device_pb2, types_pb2
from nnhal_hosting.descriptors import SessionLimits
from nnhal_service.runtime import Fleet
from tests.support.additions import addition_model
from tests.support.refusals import refusal
from tests.support.scripted import (
    CAPABILITIES,
    HEALTHY,
    VERSION,
    Behaviour,
    Call,
    Script,
    ScriptedDevice,
    hang,
    kill,
    refuse,
    scripted_process,
)
from tests.support.waiting import wait_until

STOPPED_BY = {"assess": "Backend.AssessModel", "prepare": "Device.PrepareModelWithConfig"}
GETTERS = [method for method in HEALTHY if method.startswith("Device.Get") and "Operations" not in method]
UNAVAILABLE = ErrorStatus.DEVICE_UNAVAILABLE


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as entered:
        yield entered


@pytest.fixture
def logged() -> Iterator[list[EventDict]]:
    with structlog.testing.capture_logs() as events:
        yield events


def warnings_of(events: list[EventDict]) -> list[tuple[str, str]]:
    return [
        (event["device"], event["event"]) for event in events if event["log_level"] == "warning" and "device" in event
    ]


def fleet_of(stack: ExitStack, directory: Path, *scripts: Script, getter_seconds: float = 10.0) -> Fleet:
    """Return a fleet of devices d0, d1, … that follow scripts."""
    endpoints = {f"d{number}": Endpoint(directory / f"d{number}") for number in range(len(scripts))}
    for endpoint, script in zip(endpoints.values(), scripts, strict=True):
        stack.enter_context(ScriptedDevice(endpoint, script))
    fleet = Fleet(endpoints, getter_seconds)
    stack.callback(fleet.close)
    return fleet


def answering(fleet: Fleet) -> list[str]:
    return [member.name for member in fleet.available()]


def test_a_device_is_registered_with_the_results_of_all_its_getters(short_path: Path, stack: ExitStack) -> None:
    member = fleet_of(stack, short_path, {}).get("d0")
    assert member.identity == DeviceIdentity(VERSION, DeviceType.ACCELERATOR, CAPABILITIES, (), NumberOfCacheFiles())
    assert (member.version, member.type) == (VERSION, DeviceType.ACCELERATOR)
    assert (member.capabilities, member.extensions) == (CAPABILITIES, ())


@pytest.mark.contract("DV-12")
def test_each_getter_of_a_device_is_called_once(short_path: Path, stack: ExitStack) -> None:
    device = stack.enter_context(ScriptedDevice(Endpoint(short_path / "d0")))
    fleet = Fleet({"d0": device.endpoint})
    stack.callback(fleet.close)
    assert fleet.get("d0") == fleet.get("d0")
    assert [device.count(method) for method in GETTERS] == [1] * len(GETTERS)


def break_the_wire(request: Any, call: Call) -> None:
    call.context.abort(grpc.StatusCode.INTERNAL, "the wire broke")


FAILURES: dict[str, Behaviour] = {
    "refuses": refuse(HalError(UNAVAILABLE, "not now")),
    "breaks": break_the_wire,
}


@pytest.mark.contract("DV-09")
@pytest.mark.parametrize("getter", GETTERS)
@pytest.mark.parametrize("failure", FAILURES)
def test_a_device_whose_getter_fails_is_not_registered_but_others_are(
    short_path: Path, stack: ExitStack, logged: list[EventDict], getter: str, failure: str
) -> None:
    fleet = fleet_of(stack, short_path, {}, {getter: FAILURES[failure]}, {})
    assert answering(fleet) == ["d0", "d2"]
    refusal(lambda: fleet.get("d1"), UNAVAILABLE, "device 'd1' is refused: .*(not now|the wire broke)")
    assert warnings_of(logged) == [("d1", "a device is refused")]


@pytest.mark.slow
@pytest.mark.contract("DV-09")
@pytest.mark.parametrize("getter", ["Device.GetVersionString", "Device.GetNumberOfCacheFilesNeeded"])
def test_a_device_whose_getter_hangs_is_not_registered_but_others_are(
    short_path: Path, stack: ExitStack, logged: list[EventDict], getter: str
) -> None:
    fleet = fleet_of(stack, short_path, {getter: hang}, {}, getter_seconds=2.0)
    for _ in range(2):
        assert answering(fleet) == ["d1"]
    refusal(lambda: fleet.get("d0"), UNAVAILABLE, "device 'd0' is refused: .*DEADLINE_EXCEEDED")
    assert warnings_of(logged) == [("d0", "a device is refused")]


@pytest.mark.contract("DV-09")
@pytest.mark.parametrize("getter", GETTERS)
def test_a_device_that_dies_in_a_getter_is_not_registered_but_others_are(
    short_path: Path, stack: ExitStack, logged: list[EventDict], getter: str
) -> None:
    process, dying = stack.enter_context(scripted_process(short_path / "dying", dies_at=getter))
    healthy = stack.enter_context(ScriptedDevice(Endpoint(short_path / "healthy")))
    fleet = Fleet({"dying": dying, "healthy": healthy.endpoint})
    stack.callback(fleet.close)
    assert answering(fleet) == ["healthy"]
    assert process.wait() != 0
    assert warnings_of(logged) == [("dying", "a device died while it was registered")]
    with pytest.raises(DeadObjectError):
        fleet.get("dying")


@pytest.mark.contract("DV-09")
def test_a_device_that_hangs_does_not_delay_the_use_of_others(short_path: Path, stack: ExitStack) -> None:
    asked, other_seen = threading.Event(), threading.Event()

    def answer_late(request: Any, call: Call) -> Any:
        asked.set()
        other_seen.wait()
        return HEALTHY["Device.GetType"]

    fleet = fleet_of(stack, short_path, {"Device.GetType": answer_late}, {})
    slow = threading.Thread(target=fleet.get, args=("d0",))
    slow.start()
    try:
        asked.wait()
        assert fleet.get("d1").name == "d1"
    finally:
        other_seen.set()
        slow.join()
    assert answering(fleet) == ["d0", "d1"]


def cache_files(model: int, data: int) -> Script:
    counts = types_pb2.NumberOfCacheFiles(num_model_cache=model, num_data_cache=data)
    answer = device_pb2.GetNumberOfCacheFilesNeededResponse(number_of_cache_files=counts)
    return {"Device.GetNumberOfCacheFilesNeeded": answer}


@pytest.mark.contract("DV-10")
def test_a_device_is_registered_only_with_a_valid_number_of_cache_files(
    short_path: Path, stack: ExitStack, logged: list[EventDict]
) -> None:
    numbers = [(0, 0), (33, 0), (32, 32), (0, 33), (-1, 0), (1, 1), (0, -1), (32, 33)]
    fleet = fleet_of(stack, short_path, *(cache_files(*pair) for pair in numbers))
    registered = [numbers[int(name[1:])] for name in answering(fleet)]
    assert registered == [(0, 0), (32, 32), (1, 1)]
    assert len(warnings_of(logged)) == 5


NONSENSE: dict[str, Script] = {
    "no version": {"Device.GetVersionString": device_pb2.GetVersionStringResponse()},
    "no type": {"Device.GetType": device_pb2.GetTypeResponse()},
    "no capabilities": {"Device.GetCapabilities": device_pb2.GetCapabilitiesResponse()},
    "a bad extension": {
        "Device.GetSupportedExtensions": device_pb2.GetSupportedExtensionsResponse(
            extensions=[types_pb2.Extension(name="Bad")]
        )
    },
    "a bad description": {"Backend.Describe": backend_pb2.DescribeResponse(alignment=-64)},
}


@pytest.mark.contract("DV-11")
@pytest.mark.parametrize("case", NONSENSE)
def test_a_device_with_an_invalid_getter_result_is_refused(
    short_path: Path, stack: ExitStack, logged: list[EventDict], case: str
) -> None:
    fleet = fleet_of(stack, short_path, NONSENSE[case], {})
    for _ in range(2):
        assert answering(fleet) == ["d1"]
    assert warnings_of(logged) == [("d0", "a device is refused")]


def test_a_device_that_refuses_to_describe_itself_is_used_as_one_without_a_backend(
    short_path: Path, stack: ExitStack
) -> None:
    fleet = fleet_of(stack, short_path, {"Backend.Describe": refuse(HalError(UNAVAILABLE, "not now"))})
    with pytest.raises(MissingMethodError, match="BackendService/Describe: DEVICE_UNAVAILABLE: not now"):
        fleet.get("d0").remote.describe()


def test_a_refused_device_is_asked_again_only_after_it_was_restarted(short_path: Path, stack: ExitStack) -> None:
    endpoint = Endpoint(short_path / "d0")
    fleet = Fleet({"d0": endpoint})
    stack.callback(fleet.close)
    with ScriptedDevice(endpoint, NONSENSE["no type"]) as device:
        for _ in range(3):
            refusal(lambda: fleet.get("d0"), UNAVAILABLE, "is refused: .* has device type 0")
        assert device.count("Device.GetType") == 1
    with pytest.raises(DeadObjectError):
        fleet.get("d0")
    with ScriptedDevice(endpoint):
        assert fleet.get("d0").version == VERSION


OTHER_VERSION: Script = {"Device.GetVersionString": device_pb2.GetVersionStringResponse(version="scripted-2")}
OTHERS: dict[str, Script] = {
    "version": OTHER_VERSION,
    "type": {"Device.GetType": device_pb2.GetTypeResponse(type=types_pb2.DEVICE_TYPE_CPU)},
    "capabilities": {
        "Device.GetCapabilities": device_pb2.GetCapabilitiesResponse(
            capabilities=capabilities_to_wire(replace(CAPABILITIES, operand_performance=()))
        )
    },
    "extensions": {
        "Device.GetSupportedExtensions": device_pb2.GetSupportedExtensionsResponse(
            extensions=[types_pb2.Extension(name="a.b")]
        )
    },
    "cache_files": cache_files(1, 0),
}


@pytest.mark.contract("DV-14", "RS-09")
@pytest.mark.parametrize("what", OTHERS)
def test_a_device_that_returns_as_another_is_refused_until_the_registered_one_is_back(
    short_path: Path, stack: ExitStack, logged: list[EventDict], what: str
) -> None:
    process, endpoint = stack.enter_context(scripted_process(short_path / "d0"))
    fleet = Fleet({"d0": endpoint})
    stack.callback(fleet.close)
    registered = fleet.get("d0")
    kill(process)
    with ScriptedDevice(endpoint, OTHERS[what]) as other:
        words = f"is refused: it was registered as 'scripted-1'; the process there now .* differs in {what}"
        for _ in range(2):
            refusal(lambda: fleet.get("d0"), UNAVAILABLE, words)
        assert fleet.available() == []
        assert {name.partition(".Get")[0] for name, _ in other.calls} == {"Device"}
        assert (registered.version, registered.type, registered.capabilities) == (
            VERSION,
            DeviceType.ACCELERATOR,
            CAPABILITIES,
        )
    assert warnings_of(logged) == [("d0", "a device is gone"), ("d0", "a device is refused")]
    with ScriptedDevice(endpoint):
        assert fleet.get("d0").remote.supported_operations(addition_model()) == [True]


def test_a_device_that_was_killed_and_restarted_unchanged_is_used_at_once(short_path: Path, stack: ExitStack) -> None:
    process, endpoint = stack.enter_context(scripted_process(short_path / "d0"))
    fleet = Fleet({"d0": endpoint})
    stack.callback(fleet.close)
    old = fleet.get("d0").remote
    kill(process)
    wait_until(lambda: old.gone, "the session has ended")
    with pytest.raises(DeadObjectError):
        fleet.get("d0")
    second, _ = stack.enter_context(scripted_process(short_path / "d0"))
    assert fleet.get("d0").remote.pid == second.pid


@pytest.mark.contract("RS-08")
def test_of_several_threads_that_find_a_device_dead_the_first_connects_it_and_the_others_use_that(
    short_path: Path, stack: ExitStack
) -> None:
    process, endpoint = stack.enter_context(scripted_process(short_path / "d0"))
    fleet = Fleet({"d0": endpoint})
    stack.callback(fleet.close)
    old = fleet.get("d0").remote
    kill(process)
    second = stack.enter_context(ScriptedDevice(endpoint))
    callers = 6
    together = threading.Barrier(callers)

    def get(_: int) -> RemoteDevice:
        together.wait()
        return fleet.get("d0").remote

    with ThreadPoolExecutor(callers) as pool:
        (found,) = set(pool.map(get, range(callers)))
    assert found is not old
    assert (second.count("Device.GetVersionString"), len(second.sessions.all())) == (1, 1)


def test_a_device_that_does_not_run_is_left_out_without_a_warning(
    short_path: Path, stack: ExitStack, logged: list[EventDict]
) -> None:
    fleet = fleet_of(stack, short_path, {}, {})
    (short_path / "d1" / "link.sock").unlink()
    assert answering(fleet) == ["d0"]
    with pytest.raises(DeadObjectError, match="no link at"):
        fleet.get("d1")
    assert warnings_of(logged) == []


def test_a_device_that_does_not_run_holds_nothing_of_those_who_asked_for_it(
    short_path: Path, stack: ExitStack, uncollected: None
) -> None:
    class Memory:
        """Something that a caller uses."""

    def used(fleet: Fleet) -> weakref.ref[Memory]:
        memory = Memory()
        try:
            fleet.get("d0")
        except DeadObjectError:
            return weakref.ref(memory)
        raise AssertionError("a device without a process was found")

    fleet = fleet_of(stack, short_path, {})
    (short_path / "d0" / "link.sock").unlink()
    memory = used(fleet)
    wait_until(lambda: memory() is None, "the memory is free")


@pytest.mark.contract("DV-09")
def test_a_device_that_refuses_the_frameworks_link_is_not_registered(
    short_path: Path, stack: ExitStack, logged: list[EventDict]
) -> None:
    fleet = fleet_of(stack, short_path, {})
    most = SessionLimits().sessions * 7 // 8  # the others are for other processes
    crowd = [stack.enter_context(RemoteDevice(Endpoint(short_path / "d0"), "crowd")) for _ in range(most)]
    assert answering(fleet) == []
    assert warnings_of(logged) == [("d0", "a device refuses the framework")]
    crowd[0].close()
    wait_until(lambda: answering(fleet) == ["d0"], "there is room")


def test_an_unknown_name_is_not_a_device(short_path: Path) -> None:
    with pytest.raises(LookupError, match="no device 'd9'; there are none"):
        Fleet({}).get("d9")


@contextmanager
def stopped(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Stop a process, with its sockets open, until the context ends."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@pytest.mark.contract("DV-09")
def test_a_device_that_is_stopped_before_connecting_is_left_out_until_it_continues(
    short_path: Path, stack: ExitStack, logged: list[EventDict]
) -> None:
    process, endpoint = stack.enter_context(scripted_process(short_path / "d0"))
    healthy = stack.enter_context(ScriptedDevice(Endpoint(short_path / "d1")))
    fleet = Fleet({"d0": endpoint, "d1": healthy.endpoint}, patience=0.5)
    stack.callback(fleet.close)
    with stopped(process):
        for _ in range(3):
            assert answering(fleet) == ["d1"]
        refusal(lambda: fleet.get("d0"), UNAVAILABLE, "device 'd0' has not answered")
    wait_until(lambda: answering(fleet) == ["d0", "d1"], "the device is used again")
    assert warnings_of(logged) == [("d0", "a device does not answer")]
    assert fleet.get("d0").remote.pid == process.pid


def test_a_device_that_is_stopped_while_connecting_is_left_out_until_it_continues(
    short_path: Path, stack: ExitStack
) -> None:
    process, endpoint = stack.enter_context(scripted_process(short_path / "d0"))
    healthy = stack.enter_context(ScriptedDevice(Endpoint(short_path / "d1")))
    fleet = Fleet({"d0": endpoint, "d1": healthy.endpoint}, patience=0.5)
    stack.callback(fleet.close)
    wait_until(lambda: answering(fleet) == ["d0", "d1"], "the devices are connected")
    remote = fleet.get("d0").remote
    prepared = remote.prepare_model(addition_model())
    with stopped(process):
        assert answering(fleet) == ["d1"]
        for _ in range(20):  # more than the backlog of connections
            waiting = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            waiting.setblocking(False)
            waiting.connect_ex(str(endpoint.link))
        assert answering(fleet) == ["d1"]
        for call in (
            lambda: remote.supported_operations(addition_model()),
            lambda: remote.prepare_model(addition_model()),
            remote.describe,
        ):
            with pytest.raises(TransportError, match="does not answer, though it has not ended") as caught:
                call()
            assert not isinstance(caught.value, DeadObjectError)
        prepared.release()
    wait_until(lambda: answering(fleet) == ["d0", "d1"], "the device is used again")
    assert fleet.get("d0").remote is remote
    assert remote.supported_operations(addition_model()) == [True]


@pytest.mark.parametrize("call", STOPPED_BY)
def test_a_call_ends_if_its_device_is_stopped_during_it(short_path: Path, stack: ExitStack, call: str) -> None:
    process, endpoint = stack.enter_context(scripted_process(short_path / "d0", stops_at=STOPPED_BY[call]))
    fleet = Fleet({"d0": endpoint}, patience=0.5)
    stack.callback(fleet.close)
    wait_until(lambda: answering(fleet) == ["d0"], "the device is connected")
    remote = fleet.get("d0").remote
    with pytest.raises(TransportError, match="does not answer, though it has not ended"):
        remote.assess_model(addition_model()) if call == "assess" else remote.prepare_model(addition_model())
    assert not remote.gone
    process.send_signal(signal.SIGCONT)
    wait_until(lambda: answering(fleet) == ["d0"], "the device is used again")


def test_callers_wait_concurrently_for_a_device_that_is_stopped(short_path: Path, stack: ExitStack) -> None:
    process, endpoint = stack.enter_context(scripted_process(short_path / "d0"))
    fleet = Fleet({"d0": endpoint}, patience=2.0)
    stack.callback(fleet.close)
    callers = 30
    with stopped(process), ThreadPoolExecutor(callers) as pool:
        asked = [pool.submit(fleet.get, "d0") for _ in range(callers)]
        # One after the other, they would take a minute.
        done, _ = wait(asked, timeout=30)
    assert len(done) == callers
    for outcome in asked:
        refusal(outcome.result, UNAVAILABLE, "device 'd0' has not answered")


def test_a_device_that_was_killed_is_waited_for_if_it_may_be_started_again(short_path: Path, stack: ExitStack) -> None:
    process, endpoint = stack.enter_context(scripted_process(short_path / "d0"))
    fleet = Fleet({"d0": endpoint, "d1": Endpoint(short_path / "d1")})
    stack.callback(fleet.close)
    old = fleet.get("d0").remote
    kill(process)
    wait_until(lambda: old.gone, "the session has ended")
    with ThreadPoolExecutor(1) as pool:
        awaited = pool.submit(fleet.awaited, "d0")
        second, _ = stack.enter_context(scripted_process(short_path / "d0"))
        assert awaited.result().remote.pid == second.pid
    with pytest.raises(DeadObjectError):  # it was never there
        fleet.awaited("d1")


def test_a_device_that_was_added_is_the_last_in_order_and_can_be_removed(short_path: Path, stack: ExitStack) -> None:
    fleet = fleet_of(stack, short_path, {})
    added = stack.enter_context(ScriptedDevice(Endpoint(short_path / "added")))
    fleet.add("added", added.endpoint)
    assert answering(fleet) == ["d0", "added"]
    assert [state.is_added for state in fleet.states()] == [False, True]
    with pytest.raises(ValueError, match="there is a device 'added' already"):
        fleet.add("added", added.endpoint)
    with pytest.raises(ValueError, match="'d0' was there at the start"):
        fleet.remove("d0")
    fleet.remove("added")
    assert fleet.names == ("d0",) and not fleet.is_there("added")
    refusal(lambda: fleet.get("added"), UNAVAILABLE, "device 'added' was removed")
    with pytest.raises(LookupError, match="no device 'added'"):
        fleet.remove("added")
    fleet.add("added", added.endpoint)
    assert fleet.get("added").name == "added"


def test_a_name_keeps_its_identity_when_its_device_is_removed_and_added(short_path: Path, stack: ExitStack) -> None:
    fleet = fleet_of(stack, short_path, {})
    one = stack.enter_context(ScriptedDevice(Endpoint(short_path / "one")))
    fleet.add("added", one.endpoint)
    fleet.remove("added")
    version = device_pb2.GetVersionStringResponse(version="other")
    script: Script = {"Device.GetVersionString": lambda *_: version}
    another = stack.enter_context(ScriptedDevice(Endpoint(short_path / "other"), script))
    refusal(lambda: fleet.add("added", another.endpoint), UNAVAILABLE, "it was registered as")
    assert fleet.names == ("d0",)
    fleet.add("added", one.endpoint)


def test_a_device_that_is_not_there_cannot_be_added(short_path: Path, stack: ExitStack) -> None:
    fleet = fleet_of(stack, short_path, {})
    with pytest.raises(DeadObjectError):
        fleet.add("added", Endpoint(short_path / "nobody"))
    assert fleet.names == ("d0",)


def test_a_withdrawn_device_is_left_out_but_can_still_be_had(short_path: Path, stack: ExitStack) -> None:
    fleet = fleet_of(stack, short_path, {}, {})
    fleet.get("d0")
    fleet.withdraw("d0")
    assert answering(fleet) == ["d1"] and fleet.withdrawn == {"d0"} and not fleet.is_there("d0")
    first, _ = fleet.states()
    assert (first.name, first.is_withdrawn, first.trouble) == ("d0", True, "")
    assert fleet.get("d0").name == "d0"
    fleet.restore("d0")
    assert answering(fleet) == ["d0", "d1"] and fleet.is_there("d0")
    for change in (fleet.withdraw, fleet.restore):
        with pytest.raises(LookupError):
            change("d2")


def test_what_becomes_of_devices_is_noted(short_path: Path, stack: ExitStack) -> None:
    notes: list[tuple[str, ...]] = []
    endpoint = Endpoint(short_path / "d0")
    fleet = Fleet({"d0": endpoint}, note=lambda *note: notes.append(note))
    stack.callback(fleet.close)
    failed = "no process serves at its directory"
    assert fleet.states()[0].trouble in ("it has not been connected yet", failed)  # the attempt may have ended already
    wait_until(lambda: fleet.states()[0].trouble == failed, "the attempt has failed")
    with ScriptedDevice(endpoint):
        wait_until(lambda: not fleet.states()[0].trouble, "the device is connected")
        assert notes == []
    wait_until(lambda: bool(fleet.states()[0].trouble), "its end is noticed")
    assert notes == [("lost", "d0", "device d0 is gone")]
    with ScriptedDevice(endpoint):
        wait_until(lambda: fleet.is_there("d0"), "the device is back")
    assert notes[1] == ("back", "d0", "device d0 is back")
