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
from nnhal.v1 import admin_pb2, admin_pb2_grpc, burst_pb2, prepared_model_pb2
from nnhal_conformance.device import Prepared
from nnhal_conformance.session import Datagrams
from nnhal_conformance.ways import LAUNCHES
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.calls import WAYS, held_by, session_with
from tests.support.endless import endless_model, endless_request
from tests.support.far_devices import far_device, near_device
from tests.support.processes import device_process
from tests.support.refusals import FAILURE, MISSED, refusal
from tests.support.waiting import SECONDS, wait_until

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
def held(endpoint: Endpoint) -> Iterator[Prepared]:
    with session_with(endpoint) as session:
        yield held_by(session, endless_model())


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


@pytest.mark.parametrize("way", WAYS)
def test_it_ends_at_its_deadline(held: Prepared, others: Others, way: str) -> None:
    run = WAYS[way](held, endless_request())
    misses(lambda: run(deadline_ns=now_ns() + SOON_NS))
    others.are_served()


def test_several_end_at_their_deadlines_while_others_wait(
    held: Prepared, others: Others, threads: ThreadPoolExecutor
) -> None:
    bound = [WAYS["burst-reusable"](held, endless_request()) for _ in range(10)]
    deadline_ns = now_ns() + SOON_NS
    runs = [threads.submit(run, deadline_ns=deadline_ns) for run in bound]
    others.are_served()
    for each in runs:
        misses(partial(each.result, SECONDS))


@pytest.mark.contract("FC-06", "FC-11")
def test_a_launched_one_may_take_as_long_as_it_was_allowed_once_it_begins(held: Prepared, others: Others) -> None:
    held.launch(endless_request(), duration_ns=SOON_NS).require_error(*MISSED)
    others.are_served()


def begin(held: Prepared) -> Datagrams:
    """Run the model without a deadline on a burst's channel, which is returned."""
    burst = held.burst()
    burst.channel.send(burst.call_of(held.bind(endless_request()).handle).SerializeToString())
    return burst.channel


def test_it_ends_when_its_client_closes_the_burst(held: Prepared, others: Others) -> None:
    begin(held).close()
    others.are_served()


def test_a_client_that_says_no_more_on_a_burst_learns_of_its_end(held: Prepared, others: Others) -> None:
    channel = begin(held)
    channel.end_sending()
    told = channel.receive()
    assert told is not None
    answer = burst_pb2.BurstAnswer.FromString(told.message)
    assert (ErrorStatus(answer.status), answer.message) == (FAILURE, "its client does not wait for it any more")
    others.are_served()


def test_it_ends_with_its_session(held: Prepared, others: Others) -> None:
    begin(held)
    launched = held.launch(endless_request())  # waits for the only worker
    held.session.close()
    others.are_served()
    assert launched.fence is not None
    launched.fence.wait_for_end()
    assert launched.fence.state is FenceState.ERROR


def test_it_ends_with_the_call_that_runs_it(held: Prepared, others: Others) -> None:
    session = held.session
    message = prepared_model_pb2.PreparedModelServiceExecuteSynchronouslyWithConfigRequest(
        prepared_model=held.handle, request=session.request(endless_request()), deadline_ns=NO_DEADLINE
    )
    stub: Any = session.prepared_model.ExecuteSynchronouslyWithConfig
    call = stub.future(message, metadata=session.metadata)
    own = admin_pb2_grpc.AdminServiceStub(session.rpc)
    ask = admin_pb2.GetProcessRequest()
    wait_until(lambda: bool(own.GetProcess(ask, metadata=session.metadata).executions), "the execution has begun")
    call.cancel()
    others.are_served()


@pytest.mark.parametrize("endpoint", ["remote"], indirect=True)
def test_it_ends_on_another_host_too(held: Prepared, others: Others) -> None:
    run = WAYS["burst"](held, endless_request())
    misses(lambda: run(deadline_ns=now_ns() + SOON_NS))
    others.are_served()
    begin(held).close()
    others.are_served()


@pytest.mark.parametrize("launch", LAUNCHES)
def test_a_launched_one_ends_when_its_fence_is_cancelled(held: Prepared, others: Others, launch: str) -> None:
    launched = LAUNCHES[launch](held, endless_request())()
    assert launched.fence is not None
    launched.fence.cancel()
    launched.fence.wait_for_end()
    launched.require_error(FAILURE)
    others.are_served()


@pytest.mark.parametrize("driver", ["cpu_acc", "cpu_ref"])
def test_an_operator_ends_it(tmp_path: Path, driver: str, threads: ThreadPoolExecutor) -> None:
    with (
        device_process(driver, tmp_path) as (child, endpoint),
        session_with(endpoint) as session,
        RemoteDevice(endpoint, "others") as remote,
        DeviceAdmin(endpoint, child.admin_key) as admin,
    ):
        run = threads.submit(WAYS["request"](held_by(session, endless_model()), endless_request()))
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
        with session_with(endpoint) as session:
            held = held_by(session, addition_model())
            with pytest.raises(TransportError):
                held.execute(addition_in_ashmem().request, deadline_ns=now_ns() + SOON_NS)
        assert child.process.wait(SECONDS) == EXIT_STATUS
    assert re.search("an execution does not end.*prepared model 1 of nnhal-check.*ADD", capfd.readouterr().err)


def test_a_run_that_takes_far_longer_than_those_before_is_ended_with_its_process(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Test_Hanging_backend.py").write_text(_HANGING.replace("runs_first = 0", "runs_first = 1"))
    for setting in ("STOP", "HANG"):
        monkeypatch.setenv(f"NNHAL_DEVICE_{setting}_SECONDS", "0.1")
    with (
        device_process("Hanging", tmp_path, "--backend-path", str(tmp_path)) as (child, endpoint),
        session_with(endpoint) as session,
    ):
        held = held_by(session, addition_model())
        burst, bound = held.burst(), held.bind(addition_in_ashmem().request)
        burst.run(bound)
        burst.channel.send(burst.call_of(bound.handle).SerializeToString())
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
