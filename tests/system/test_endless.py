"""A model that does not end by itself, in every way to run it through the framework, while others are served."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from nnhal.clock import now_ns
from nnhal.errors import HalError, NnhalError
from nnhal.fence import Fence, FenceError
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal.v1 import framework_pb2 as wire
from nnhal_client import Framework, connect
from nnhal_client.binding import Binding
from tests.support.endless import INPUT, endless_onnx
from tests.support.model_server import Devices, Served, model_server
from tests.support.operated import Beside, operator_of
from tests.support.processes import device_process
from tests.support.repositories import numbers, onnx_file, write
from tests.support.tritonclients import Triton, status_of
from tests.support.waiting import SECONDS, stop, wait_until

pytestmark = pytest.mark.slow
APIS = {"grpc": tritonclient.grpc, "http": tritonclient.http}
MISSED_STATUSES = (ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT)
MISSED = {"grpc": "DEADLINE_EXCEEDED", "http": "504"}
START = {INPUT: np.ones(1, np.float32)}
SOON_US = 100_000
_LONG_TICKS = 20
"""Hundredths of a second."""


@pytest.fixture(scope="module")
def served(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A framework with the endless model and one that ends, on the same devices."""
    repository = tmp_path_factory.mktemp("repository")
    write(repository, "endless", {"1/model.onnx": endless_onnx().SerializeToString()})
    write(repository, "tanh", {"1/model.onnx": onnx_file(shape=(1, 8))})
    with model_server(device_processes, repository, "--unload-secs", "0.1") as process:
        yield process


@pytest.fixture(params=APIS)
def triton(request: pytest.FixtureRequest, served: Served) -> Iterator[Triton]:
    with Triton(request.param, APIS[request.param], getattr(served, request.param)) as client:
        yield client


@pytest.fixture
def framework(served: Served) -> Iterator[Framework]:
    with connect(served.endpoint.directory) as session:
        yield session


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(12) as pool:
        yield pool


class Work:
    """Tells whether the devices work: by the time that processors have spent on them since the test began."""

    def __init__(self, pids: Collection[int]) -> None:
        self._pids = pids
        self._before = self._spent()

    def has_begun(self) -> None:
        """Wait until the devices have worked longer than any run of a test but an endless one takes."""
        wait_until(lambda: self._spent() > self._before + _LONG_TICKS, "the run has begun")

    def _spent(self) -> int:
        states = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self._pids]
        return sum(int(state[11]) + int(state[12]) for state in states)


@pytest.fixture
def work(device_processes: Devices) -> Work:
    return Work(device_processes.pids.values())


def others_are_served(served: Served) -> None:
    """Check that another client's request of another model is answered, and right."""
    with Triton("http", tritonclient.http, served.http) as client:
        got = client.infer("tanh", {"x": numbers()}).as_numpy("y")
    np.testing.assert_allclose(got, np.tanh(numbers()), atol=1e-5)


def misses(triton: Triton, timeout: int = SOON_US) -> None:
    with pytest.raises(InferenceServerException) as late:
        triton.infer("endless", START, timeout=timeout)
    assert status_of(late.value) == MISSED[triton.name]


def test_requests_end_at_their_timeout(served: Served, triton: Triton) -> None:
    misses(triton)
    others_are_served(served)


def test_several_end_at_their_timeouts_while_others_are_served(served: Served, threads: ThreadPoolExecutor) -> None:
    def one(_: int) -> None:
        with Triton("http", tritonclient.http, served.http) as client:
            misses(client)

    late = [threads.submit(one, number) for number in range(10)]
    others_are_served(served)
    for each in late:
        each.result(SECONDS)


@pytest.fixture
def stuck(served: Served) -> Iterator[socket.socket]:
    """A connection over which a request of the endless model has come, which has no timeout and runs."""
    body = b'{"inputs":[{"name":"start","shape":[1],"datatype":"FP32","data":[1]}]}'
    head = b"POST /v2/models/endless/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", served.port), timeout=SECONDS) as connection:
        connection.sendall(head + body)
        with operator_of(served) as admin:
            wait_until(lambda: bool(admin.process().executions), "the request runs")
        yield connection


def test_a_request_waits_no_longer_than_its_timeout_behind_one_that_is_stuck(
    served: Served, triton: Triton, stuck: socket.socket
) -> None:
    misses(triton)
    stuck.close()
    others_are_served(served)


def test_others_do_not_wait_for_ever_for_one_that_is_stuck(served: Served, stuck: socket.socket) -> None:
    others_are_served(served)
    stuck.close()


def test_a_request_ends_with_its_connection(served: Served, stuck: socket.socket) -> None:
    stuck.close()
    others_are_served(served)


def test_an_operator_ends_a_request(served: Served, stuck: socket.socket) -> None:
    with operator_of(served) as admin:
        admin.cancel_execution(admin.process().executions[0].id)
    assert stuck.recv(1 << 16).startswith(b"HTTP/1.1 499")
    others_are_served(served)


def bound(framework: Framework, direct: bool = True) -> Binding:
    binding = framework.open("endless").bind(direct=direct)
    binding.inputs[INPUT][...] = 1
    return binding


def test_a_native_run_ends_at_its_deadline(served: Served, framework: Framework) -> None:
    with pytest.raises(HalError) as late:
        bound(framework).run(now_ns() + SOON_US * 1000)
    assert late.value.status in MISSED_STATUSES
    others_are_served(served)


@pytest.mark.parametrize("direct", [True, False])
def test_a_native_run_ends_with_its_session(served: Served, work: Work, direct: bool) -> None:
    with connect(served.endpoint.directory) as session:
        run = Beside(bound(session, direct).run)
        work.has_begun()
    with pytest.raises(NnhalError):
        run.result()
    others_are_served(served)


_bound: list[Binding] = []
"""Keeps bindings from being closed while what they have launched runs."""


def runs(binding: Binding) -> bool:
    try:
        binding.run()
    except HalError:
        return False
    return True


def launch(
    framework: Framework, binding: Binding, seconds: float = -1, duration_ns: int = NO_DEADLINE
) -> tuple[int, Fence]:
    """Launch a run of a binding, with a deadline in ``seconds``; return its handle and its fence."""
    deadline_ns = NO_DEADLINE if seconds < 0 else now_ns() + int(seconds * 1e9)
    message = wire.LaunchRunRequest(binding=binding._handle, deadline_ns=deadline_ns, duration_ns=duration_ns)
    answer = framework.calls.call(framework.stub.LaunchRun, message)
    _bound.append(binding)
    return answer.launched, Fence(framework.calls.take(answer.fence_descriptor_id))


def ending(framework: Framework, launched: int, fence: Fence) -> tuple[ErrorStatus, str]:
    """Wait for the end of a launched run; return its status and its message."""
    with pytest.raises(FenceError):
        fence.wait(SECONDS)
    answer = framework.calls.call(framework.stub.GetLaunchedRun, wire.GetLaunchedRunRequest(launched=launched))
    return ErrorStatus(answer.status), answer.message


@pytest.mark.parametrize("by_duration", [False, True])
def test_a_launched_run_ends_at_its_deadline(served: Served, framework: Framework, by_duration: bool) -> None:
    binding = bound(framework)
    limits = {"duration_ns": 10**8} if by_duration else {"seconds": 0.1}
    status, _ = ending(framework, *launch(framework, binding, **limits))
    assert status in MISSED_STATUSES
    others_are_served(served)


def test_a_launched_run_can_be_cancelled(served: Served, framework: Framework, work: Work) -> None:
    binding = bound(framework)
    launched, fence = launch(framework, binding)
    work.has_begun()
    framework.calls.call(framework.stub.CancelLaunchedRun, wire.CancelLaunchedRunRequest(launched=launched))
    assert ending(framework, launched, fence) == (ErrorStatus.GENERAL_FAILURE, "the run was cancelled")
    others_are_served(served)


@pytest.mark.parametrize("way", ["Run", "channel"])
def test_an_operator_ends_a_native_run(served: Served, framework: Framework, way: str) -> None:
    binding = bound(framework, direct=False)
    message = wire.RunRequest(binding=binding._handle, deadline_ns=NO_DEADLINE)
    run = Beside(binding.run if way == "channel" else lambda: framework.calls.call(framework.stub.Run, message))
    with operator_of(served) as admin:
        wait_until(lambda: bool(admin.process().executions), "the run has begun")
        admin.cancel_execution(admin.process().executions[0].id)
    with pytest.raises(HalError, match="the run was cancelled"):
        run.result()
    others_are_served(served)


def test_a_model_is_unloaded_though_it_runs(served: Served, framework: Framework) -> None:
    model = framework.load(served.repository / "endless" / "1" / "model.onnx")
    binding = model.bind(direct=False)
    run = Beside(binding.run)
    with operator_of(served) as admin:
        wait_until(lambda: bool(admin.process().executions), "the run has begun")
    model.unload()
    with pytest.raises(HalError, match="the model has been unloaded"):
        run.result()
    others_are_served(served)


def test_a_model_of_the_repository_is_unloaded_though_it_runs(served: Served, stuck: socket.socket) -> None:
    with Triton("http", tritonclient.http, served.http) as client:
        client.client.unload_model("endless")
        assert stuck.recv(1 << 16).startswith(b"HTTP/1.1 499")
        others_are_served(served)
        client.client.load_model("endless")
        misses(client)


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[tuple[Served, int]]:
    """A framework whose only device can be frozen, and the id of that device's process."""
    write(tmp_path / "models", "tanh", {"1/model.onnx": onnx_file(shape=(1, 8))})
    with device_process("cpu_acc", tmp_path) as (child, endpoint):
        over = Devices({"cpu_acc": endpoint}, {"cpu_acc": child.pid})
        with model_server(over, tmp_path / "models") as served:
            try:
                yield served, child.pid
            finally:
                os.kill(child.pid, signal.SIGCONT)


def test_deadlines_hold_on_a_device_that_is_frozen_and_what_they_held_is_free_again(frozen: tuple[Served, int]) -> None:
    served, pid = frozen
    with connect(served.endpoint.directory) as session:
        bindings = [session.open("tanh").bind(direct=False) for _ in range(2)]
        for binding in bindings:
            binding.inputs["x"][...] = numbers()
            binding.run()
        stop(pid)
        with pytest.raises(HalError) as late:
            bindings[0].run(now_ns() + SOON_US * 1000)
        assert late.value.status in MISSED_STATUSES
        message = wire.LaunchRunRequest(
            binding=bindings[1]._handle, deadline_ns=now_ns() + SOON_US * 1000, duration_ns=NO_DEADLINE
        )
        answer = session.calls.call(session.stub.LaunchRun, message)
        fence = Fence(session.calls.take(answer.fence_descriptor_id))
        assert ending(session, answer.launched, fence)[0] in MISSED_STATUSES
        os.kill(pid, signal.SIGCONT)
        for binding in bindings:
            wait_until(partial(runs, binding), "the binding is free again")
