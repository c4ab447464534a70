"""Faults on purpose: each way of execution and each call meets them, and only those that they are about."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from nnhal.clock import now_ns
from nnhal.device_calls import EXECUTE, METHODS, PREPARE
from nnhal.errors import HalError, NnhalError
from nnhal.remote import RemoteDevice
from nnhal.remote.admin import DeviceAdmin
from nnhal.remote.faults import FaultControl
from nnhal.types import ErrorStatus
from nnhal_conformance.ways import PREPARATIONS, Prepare
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.caching import CachingDevice
from tests.support.calls import session_with
from tests.support.faulty import METHODS_OF_WAYS, FaultyDevice, execution_in, fault, faulty_device
from tests.support.processes import device_process
from tests.support.refusals import FAILURE, INVALID, MISSED, refusal
from tests.support.waiting import SECONDS, wait_until
from tests.support.well_formed import WellFormed, device_methods, name_of

pytestmark = pytest.mark.slow
CALLS = {title: method for method in device_methods() if (title := name_of(method).replace("Service.", ".")) in METHODS}
"""The calls over gRPC, by their names in conditions."""
SHORT_NS = 20_000_000


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def test_conditions_name_every_call_of_a_device() -> None:
    called = {name_of(method).replace("Service.", ".") for method in device_methods()}
    own = {name for name in called if not name.startswith(("Admin.", "DeviceAdmin."))}
    channels = {name for name in METHODS if name.startswith("Channel.")}
    assert set(METHODS) == own | channels
    assert set(METHODS_OF_WAYS.values()) == set(EXECUTE)


@pytest.mark.parametrize("way", METHODS_OF_WAYS)
def test_every_way_of_execution_meets_an_error_once_and_then_goes_on(faulty: FaultyDevice, way: str) -> None:
    method = METHODS_OF_WAYS[way]
    faulty.control.set(fault("error", method, name="lost", status="RESOURCE_EXHAUSTED_TRANSIENT", times=1))
    with execution_in(way, faulty.endpoint) as execute:
        refusal(execute, ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, "injected fault 'lost'")
        execute()
    assert [state.injected for state in faulty.control.faults()] == [1]


@pytest.mark.parametrize("way", METHODS_OF_WAYS)
def test_every_way_of_execution_is_delayed(faulty: FaultyDevice, way: str) -> None:
    faulty.control.set(fault("delay", METHODS_OF_WAYS[way], ms=SHORT_NS / 1e6, times=1))
    with execution_in(way, faulty.endpoint) as execute:
        began = now_ns()
        execute()
        assert now_ns() - began >= SHORT_NS
    assert [state.injected for state in faulty.control.faults()] == [1]


@pytest.mark.parametrize("way", METHODS_OF_WAYS)
def test_what_hangs_goes_on_when_the_fault_is_cleared(
    faulty: FaultyDevice, threads: ThreadPoolExecutor, way: str
) -> None:
    faulty.control.set(fault("hang", METHODS_OF_WAYS[way], times=1))
    with execution_in(way, faulty.endpoint) as execute:
        call = threads.submit(execute)
        wait_until(lambda: faulty.control.faults()[0].injected == 1, "the execution hangs")
        assert not call.done()
        faulty.control.clear()
        call.result(SECONDS)


@pytest.mark.parametrize("method", sorted(CALLS.keys() - {*EXECUTE, *PREPARE}))
def test_every_call_meets_an_error(faulty: FaultyDevice, method: str) -> None:
    with WellFormed(faulty.endpoint) as client:
        request = client.request_of(CALLS[method])
        faulty.control.set(fault("error", method, name="lost", status="DEVICE_UNAVAILABLE", message="gone fishing"))
        told = client.answer(CALLS[method], request)
        state = faulty.control.faults()[0]
    assert state.injected == 1
    assert told is not None
    assert told.message.endswith("injected fault 'lost': gone fishing")


@pytest.mark.parametrize("prepare", PREPARATIONS.values(), ids=PREPARATIONS)
def test_a_preparation_is_notified_of_an_error(faulty: FaultyDevice, prepare: Prepare) -> None:
    faulty.control.set(fault("error", "prepare", status="RESOURCE_EXHAUSTED_PERSISTENT"))
    with session_with(faulty.endpoint) as session:
        (launched, ended), error = prepare(session, addition_model())
    assert (launched.WhichOneof("event"), error, ended.notified.prepared_model) == ("launched", None, 0)
    assert ErrorStatus(ended.notified.status) == ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT
    assert "injected fault" in ended.notified.message


def test_a_preparation_from_a_cache_meets_an_error(tmp_path: Path) -> None:
    with faulty_device(tmp_path, driver="cpu_acc") as device, session_with(device.endpoint) as wire:
        caching = CachingDevice(wire)
        entry = caching.entry(tmp_path / "entry")
        assert caching.prepare(addition_model(), entry.create()).status == ErrorStatus.NONE
        device.control.set(fault("error", "Device.PrepareModelFromCache", times=1))
        assert caching.restore(entry.open()).status == FAILURE
        assert caching.restore(entry.open()).status == ErrorStatus.NONE


def test_a_preparation_meets_an_error_by_model_and_operation(faulty: FaultyDevice) -> None:
    with RemoteDevice(faulty.endpoint, "preparing") as remote:
        faulty.control.set(
            fault("error", "prepare", operation="CONV_*"), fault("error", "prepare", name="sums", operation="ADD")
        )
        refusal(lambda: remote.prepare_model(addition_model()), FAILURE, "injected fault 'sums'")
        faulty.control.clear(["sums"])
        remote.prepare_model(addition_model())


def test_only_the_named_session_and_the_named_calls_meet_a_fault(faulty: FaultyDevice) -> None:
    faulty.control.set(fault("error", session="victim", nth=2))
    with RemoteDevice(faulty.endpoint, "victim") as victim, RemoteDevice(faulty.endpoint, "other") as other:
        first, second = (each.prepare_model(addition_model()) for each in (victim, other))
        request = addition_in_ashmem().request
        for _ in range(3):
            second.execute(request)
        first.execute(request)
        refusal(lambda: first.execute(request), FAILURE)
        first.execute(request)
    assert [(state.met, state.injected) for state in faulty.control.faults()] == [(3, 1)]


def test_what_is_drawn_is_drawn_again_with_the_same_seed(faulty: FaultyDevice) -> None:
    def failures() -> list[bool]:
        faulty.control.set(fault("error", name="drawn", probability=0.5, seed=7))
        failed = []
        for _ in range(40):
            try:
                execute()
                failed.append(False)
            except HalError:
                failed.append(True)
        return failed

    with execution_in("burst", faulty.endpoint) as execute:
        first = failures()
        assert first == failures()
    assert 0 < sum(first) < len(first)


def test_a_delay_ends_at_the_deadline_of_the_run(faulty: FaultyDevice) -> None:
    faulty.control.set(fault("delay", ms=3_600_000))
    with RemoteDevice(faulty.endpoint, "late") as remote:
        prepared = remote.prepare_model(addition_model())
        with pytest.raises(HalError) as late:
            prepared.execute(addition_in_ashmem().request, deadline_ns=now_ns() + SHORT_NS)
    assert late.value.status in MISSED


def test_an_injected_fault_is_logged_as_such(faulty: FaultyDevice) -> None:
    faulty.control.set(fault("error", name="told", times=1))
    with execution_in("plain", faulty.endpoint) as execute:
        refusal(execute, FAILURE)
    with DeviceAdmin(faulty.endpoint, faulty.child.admin_key) as admin:
        lines = [line.text for line in admin.log_lines().lines]
        assert admin.device().injected_faults == faulty.control.injected() > 0
    (line,) = [line for line in lines if "fault injected" in line and "told" in line]
    assert "PreparedModel.ExecuteSynchronously" in line


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"what": "explosion"}, "fault 1: what: got 'explosion', expected answer, damaged_cache, death, delay, error"),
        ({"what": "error", "status": "NONE"}, "fault 1, status: got NONE"),
        ({"what": "error", "method": "Device.Fly"}, "got method 'Device.Fly', expected execute, prepare"),
        ({"what": "error", "name": "x", "colour": "red"}, r"fault 1 \(x\), colour: is unknown"),
        ({"what": "delay"}, "fault 1, ms: is missing"),
        ({"what": "error", "device": "another"}, "none of the 1 faults is about this device, 'cpu_ref'"),
    ],
)
def test_faults_that_are_not_valid_are_refused_in_words(
    faulty: FaultyDevice, given: dict[str, object], words: str
) -> None:
    refusal(lambda: faulty.control.set(given), INVALID, words)
    assert faulty.control.faults() == []


def test_a_device_that_was_not_allowed_takes_none(tmp_path: Path) -> None:
    with device_process("cpu_ref", tmp_path) as (_, endpoint), FaultControl(endpoint) as control:
        refusal(lambda: control.set(fault("error")), FAILURE, "expected it to be started with --allow-faults")


OTHER_USER = 65534
TESTER_OF_ANOTHER_USER = """
import os, sys
from pathlib import Path
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.remote import RemoteDevice
from nnhal.remote.faults import FaultControl
endpoint = Endpoint(Path(sys.argv[1]))
with FaultControl(endpoint) as own, RemoteDevice(endpoint) as device:
    own.faults()  # whatever is imported on the way, while this user may still read it
    device.version()
os.setgroups([])
os.setuid(int(sys.argv[2]))
with FaultControl(endpoint) as control:
    for call in (lambda: control.set({"what": "error"}), control.faults, control.clear, control.injected):
        try:
            call()
        except HalError as error:
            print(error)
with RemoteDevice(endpoint) as device:
    print(device.version())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of others")
def test_another_user_whose_calls_are_allowed_neither_sets_nor_sees_faults(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NNHAL_DEVICE_ALLOWED_UIDS", f"[{OTHER_USER}]")
    with faulty_device(short_path) as device:
        device.control.set(fault("delay", name="mine", ms=1))
        directory = device.endpoint.directory
        for reached in (directory.parent, directory):
            reached.chmod(0o755)
        for socket in (device.endpoint.link, device.endpoint.rpc):
            socket.chmod(0o666)
        command = [sys.executable, "-c", TESTER_OF_ANOTHER_USER, str(directory), str(OTHER_USER)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
        said = f"faults may be set by user 0 only, who runs the device; the call is of {OTHER_USER}"
        *refusals, version = done.stdout.splitlines()
        assert [line.endswith(said) for line in refusals] == [True] * 4, refusals
        assert version.startswith("nnhal-cpu_ref")
        assert [state.name for state in device.control.faults()] == ["mine"]


@pytest.mark.parametrize(
    ("way", "how", "status"),
    [
        ("request", {"exit": 3}, 3),
        ("burst", {}, -signal.SIGKILL),
        ("launch-launch-channel", {"signal": "SIGSEGV"}, -signal.SIGSEGV),
        ("chain", {"signal": "SIGABRT"}, -signal.SIGABRT),
        ("run-channel", {"signal": "SIGTERM"}, 0),
    ],
)
def test_a_device_dies_in_an_execution(tmp_path: Path, way: str, how: dict[str, object], status: int) -> None:
    with faulty_device(tmp_path) as device:
        device.control.set(fault("death", METHODS_OF_WAYS[way], **how))
        with execution_in(way, device.endpoint) as execute:
            with suppress(NnhalError):
                execute()
            assert device.child.process.wait(SECONDS) == status


def test_a_device_dies_in_a_preparation(tmp_path: Path) -> None:
    with faulty_device(tmp_path) as device, RemoteDevice(device.endpoint) as remote:
        device.control.set(fault("death", "prepare"))
        with pytest.raises(NnhalError):
            remote.prepare_model(addition_model())
        assert device.child.process.wait(SECONDS) == -signal.SIGKILL


def test_a_process_whose_calls_hang_ends_in_order(tmp_path: Path) -> None:
    with faulty_device(tmp_path) as device, RemoteDevice(device.endpoint) as remote:
        device.control.set(fault("hang", "Device.GetVersionString"))
        waiting = threading.Thread(target=lambda: _ignoring(remote))
        waiting.start()
        wait_until(lambda: device.control.faults()[0].injected == 1, "the call hangs")
        os.kill(device.child.pid, signal.SIGTERM)
        assert device.child.process.wait(SECONDS) == 0
        waiting.join()


def _ignoring(remote: RemoteDevice) -> None:
    with suppress(NnhalError):
        remote.version()


def test_only_faults_of_every_start_come_back(tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    file.write_text(
        '[[fault]]\nwhat = "error"\nname = "once"\n\n[[fault]]\nwhat = "error"\nname = "always"\nevery_start = true\n\n'
        '[[fault]]\nwhat = "hang"\ndevice = "another"\n'
    )
    with faulty_device(tmp_path, f"--faults={file}") as device:
        assert [state.name for state in device.control.faults()] == ["once", "always"]
    with faulty_device(tmp_path, f"--faults={file}", "--started-again") as device:
        assert [state.name for state in device.control.faults()] == ["always"]
