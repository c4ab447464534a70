"""Executions that would not end by themselves: at their deadline, without their client, and when they are cancelled."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nnhal.admin import EXIT_STATUS
from nnhal.clock import now_ns
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError, TransportError
from nnhal.fence import FenceState
from nnhal.remote import RemoteDevice
from nnhal.remote.admin import DeviceAdmin
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal.v1 import admin_pb2, admin_pb2_grpc, burst_pb2
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.endless import endless_model, endless_request
from tests.support.entry_points import ALL_ENTRY_POINTS, LAUNCH_POINTS, PLAIN, Target, bind, fenced
from tests.support.far_devices import far_device, near_device
from tests.support.processes import device_process
from tests.support.refusals import FAILURE, MISSED, refusal
from tests.support.waiting import SECONDS, wait_until
from tests.support.wire import WireDevice

pytestmark = pytest.mark.slow
SOON_NS = 200_000_000


@pytest.fixture(params=["cpu_acc", "cpu_ref"])
def endpoint(request: pytest.FixtureRequest) -> Endpoint:
    """Run each device that has operators of ONNX: one whose work a library does, and one that computes itself."""
    found: Endpoint = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def remote() -> Iterator[Endpoint]:
    """A device that uses another over TCP."""
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as directory,
        far_device(Path(directory), driver="cpu_acc") as far,
        near_device(Path(directory), far) as near,
    ):
        yield near.endpoint


@pytest.fixture
def wire(endpoint: Endpoint) -> Iterator[WireDevice]:
    with WireDevice(endpoint) as session:
        yield session


@pytest.fixture
def target(wire: WireDevice) -> Target:
    return Target(wire, wire.prepare(endless_model()))


@pytest.fixture
def others(endpoint: Endpoint) -> Iterator[Others]:
    with RemoteDevice(endpoint, "others") as remote:
        yield Others(remote)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


class Others:
    """A client whose brief executions wait for those that do not end."""

    def __init__(self, remote: RemoteDevice) -> None:
        self._prepared = remote.prepare_model(addition_model())
        self._addition = addition_in_ashmem()

    def are_served(self) -> None:
        request, run = self._addition.request, self._prepared.execute
        self._addition.check(lambda: run(request), 1, 2)


def misses(call: Callable[[], object]) -> None:
    """Check that a call misses its deadline: on a busy machine that may have passed before it begins."""
    with pytest.raises(HalError) as late:
        call()
    assert late.value.status in MISSED, str(late.value)


@pytest.mark.parametrize("entry", ALL_ENTRY_POINTS)
def test_it_ends_at_its_deadline(target: Target, others: Others, entry: str) -> None:
    run = ALL_ENTRY_POINTS[entry]
    misses(lambda: run(target, endless_request(), PLAIN, now_ns() + SOON_NS))
    others.are_served()


def test_several_end_at_their_deadlines_while_others_wait(
    wire: WireDevice, target: Target, others: Others, threads: ThreadPoolExecutor
) -> None:
    targets = [target, *(Target(wire, target.prepared) for _ in range(9))]
    run, deadline_ns = ALL_ENTRY_POINTS["burst, channel"], now_ns() + SOON_NS
    runs = [threads.submit(run, each, endless_request(), PLAIN, deadline_ns) for each in targets]
    others.are_served()
    for each in runs:
        misses(partial(each.result, SECONDS))


def test_a_launched_one_may_take_as_long_as_it_was_allowed_once_it_begins(target: Target, others: Others) -> None:
    info = fenced(target, endless_request(), duration_ns=SOON_NS).end()
    assert info.status in MISSED
    others.are_served()


def begin(target: Target) -> None:
    """Send a call on the burst's channel that runs the model without a deadline."""
    call = burst_pb2.BurstRun(execution=bind(target, endless_request()), deadline_ns=NO_DEADLINE)
    target.burst.channel.send(burst_pb2.BurstCall(run=call).SerializeToString())


def test_it_ends_when_its_client_closes_the_burst(target: Target, others: Others) -> None:
    begin(target)
    target.burst.channel.close()
    others.are_served()


def test_a_client_that_says_no_more_on_a_burst_learns_of_its_end(target: Target, others: Others) -> None:
    begin(target)
    target.burst.channel.end_sending()
    answer = burst_pb2.BurstAnswer.FromString(target.burst.channel.receive())
    assert (ErrorStatus(answer.status), answer.message) == (FAILURE, "its client does not wait for it any more")
    others.are_served()


def test_it_ends_with_its_session(wire: WireDevice, target: Target, others: Others) -> None:
    begin(target)
    launched = fenced(target, endless_request())  # waits for the only worker
    wire.close()
    others.are_served()
    assert launched.fence is not None
    launched.fence.wait_for_end()
    assert launched.fence.state is FenceState.ERROR


def test_it_ends_with_the_call_that_runs_it(wire: WireDevice, target: Target, others: Others) -> None:
    message = target.plain(endless_request(), PLAIN, NO_DEADLINE)
    call: Any = wire.prepared_model.ExecuteSynchronously.future(message, metadata=wire.metadata)
    own = admin_pb2_grpc.AdminServiceStub(wire.rpc)
    ask = admin_pb2.GetProcessRequest()
    wait_until(lambda: bool(own.GetProcess(ask, metadata=wire.metadata).executions), "the execution has begun")
    call.cancel()
    others.are_served()


@pytest.mark.parametrize("endpoint", ["remote"], indirect=True)
def test_it_ends_on_another_host_too(target: Target, others: Others) -> None:
    run = ALL_ENTRY_POINTS["burst, channel"]
    misses(lambda: run(target, endless_request(), PLAIN, now_ns() + SOON_NS))
    others.are_served()
    begin(target)
    target.burst.channel.close()
    others.are_served()


@pytest.mark.parametrize("launch", LAUNCH_POINTS)
def test_a_launched_one_ends_when_its_fence_is_cancelled(target: Target, others: Others, launch: str) -> None:
    launched = LAUNCH_POINTS[launch](target, endless_request())
    assert launched.fence is not None
    launched.fence.cancel()
    launched.fence.wait_for_end()
    assert launched.info().status == FAILURE
    others.are_served()


@pytest.mark.parametrize("driver", ["cpu_acc", "cpu_ref"])
def test_an_operator_ends_it(tmp_path: Path, driver: str, threads: ThreadPoolExecutor) -> None:
    with (
        device_process(driver, tmp_path) as (child, endpoint),
        WireDevice(endpoint) as wire,
        RemoteDevice(endpoint, "others") as remote,
        DeviceAdmin(endpoint, child.admin_key) as admin,
    ):
        target = Target(wire, wire.prepare(endless_model()))
        run = threads.submit(ALL_ENTRY_POINTS["sync"], target, endless_request(), PLAIN, NO_DEADLINE)
        wait_until(lambda: bool(admin.process().executions), "the execution has begun")
        admin.cancel_execution(admin.process().executions[0].id)
        refusal(lambda: run.result(SECONDS), FAILURE, "cancelled by an operator")
        Others(remote).are_served()


def test_a_device_whose_driver_hangs_ends_and_says_why(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Test_Hanging_backend.py").write_text(_HANGING)
    monkeypatch.setenv("NNHAL_DEVICE_STOP_SECONDS", "0.1")
    with device_process("Hanging", tmp_path, "--backend-path", str(tmp_path)) as (child, endpoint):
        with WireDevice(endpoint) as wire:
            target = Target(wire, wire.prepare(addition_model()))
            with pytest.raises(TransportError):
                ALL_ENTRY_POINTS["sync"](target, addition_in_ashmem().request, PLAIN, now_ns() + SOON_NS)
        assert child.process.wait(SECONDS) == EXIT_STATUS
    assert re.search("an execution does not end.*prepared model 1 of test.*ADD", capfd.readouterr().err)


def test_a_run_that_takes_far_longer_than_those_before_is_ended_with_its_process(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Test_Hanging_backend.py").write_text(_HANGING.replace("runs_first = 0", "runs_first = 1"))
    for setting in ("STOP", "HANG"):
        monkeypatch.setenv(f"NNHAL_DEVICE_{setting}_SECONDS", "0.1")
    with (
        device_process("Hanging", tmp_path, "--backend-path", str(tmp_path)) as (child, endpoint),
        WireDevice(endpoint) as wire,
    ):
        target = Target(wire, wire.prepare(addition_model()))
        run = burst_pb2.BurstRun(execution=bind(target, addition_in_ashmem().request), deadline_ns=NO_DEADLINE)
        call = burst_pb2.BurstCall(run=run).SerializeToString()
        target.burst.channel.send(call)
        answer = burst_pb2.BurstAnswer.FromString(target.burst.channel.receive())
        assert ErrorStatus(answer.status) is ErrorStatus.NONE, answer.message
        target.burst.channel.send(call)
        assert child.process.wait(SECONDS) == EXIT_STATUS
    assert re.search("an execution does not end.*it hangs: it has run for.*ADD", capfd.readouterr().err)


_HANGING = """
import threading
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import DONE

BACKEND_ID, API_VERSION = "Hanging", (1, 6)


class Hanging:
    name = BACKEND_ID
    runs_first = 0

    def __init__(self, options):
        self._reference = CpuRef(options)

    def __getattr__(self, member):
        return getattr(self._reference, member)

    def prepare(self, model, options):
        return self

    def bind(self, inputs, outputs):
        return self

    def run(self, control):
        if not self.runs_first:
            threading.Event().wait()
        self.runs_first -= 1
        return DONE


create_backend = Hanging
"""
