"""A model that does not end by itself, on a device and in a framework, in every way to run it.

It ends at its deadline, without its client, and when it is cancelled; and others are served.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from nnhal.clock import now_ns
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError, NnhalError
from nnhal.fence import FenceState
from nnhal.remote import RemoteDevice
from nnhal.remote.admin import DeviceAdmin, ProcessAdmin
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal.v1 import admin_pb2, admin_pb2_grpc, burst_pb2, prepared_model_pb2
from nnhal.v1 import framework_pb2 as wire
from nnhal_client import Framework, connect
from nnhal_client.binding import Binding
from nnhal_conformance.session import Datagrams
from nnhal_conformance.ways import LAUNCHES
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.calls import WAYS, held_by, session_with
from tests.support.endless import INPUT, endless_model, endless_onnx, endless_request
from tests.support.far_devices import far_device, near_device
from tests.support.model_server import Devices, Served, model_server
from tests.support.operated import Beside, operator_of
from tests.support.processes import device_process
from tests.support.refusals import FAILURE, MISSED, refusal
from tests.support.repositories import numbers, onnx_file, write
from tests.support.tritonclients import Triton, status_of
from tests.support.waiting import SECONDS, wait_until

pytestmark = pytest.mark.slow
SOON_NS = 200_000_000
APIS = {"grpc": tritonclient.grpc, "http": tritonclient.http}
LATE = {"grpc": "DEADLINE_EXCEEDED", "http": "504"}
START = {INPUT: np.ones(1, np.float32)}
_LONG_TICKS = 20
"""Hundredths of a second."""


@pytest.fixture(scope="module")
def remote() -> Iterator[Endpoint]:
    """A device that uses another over TCP."""
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as directory,
        far_device(Path(directory), driver="cpu_acc") as far,
        near_device(Path(directory), far) as near,
    ):
        yield near.endpoint


@pytest.fixture(scope="module")
def served(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A framework with the endless model and one that ends, on the same devices."""
    repository = tmp_path_factory.mktemp("repository")
    write(repository, "endless", {"1/model.onnx": endless_onnx().SerializeToString()})
    write(repository, "tanh", {"1/model.onnx": onnx_file(shape=(1, 8))})
    with model_server(device_processes, repository, "--unload-secs", "0.1") as process:
        yield process


Run = Callable[[int], object]
"""Runs the model until a deadline. Raises HalError."""


class OnDevice:
    """A device with two clients: one has the model, and the brief executions of the other wait for it."""

    def __init__(self, endpoint: Endpoint, stack: ExitStack) -> None:
        self.held = held_by(stack.enter_context(session_with(endpoint)), endless_model())
        self._other = stack.enter_context(RemoteDevice(endpoint, "others")).prepare_model(addition_model())

    def bound(self, way: str) -> Run:
        run = WAYS[way](self.held, endless_request())
        return lambda deadline_ns: run(deadline_ns=deadline_ns)

    def begin(self) -> Datagrams:
        """Run the model without a deadline on a burst's channel, which is returned."""
        burst = self.held.burst()
        burst.channel.send(burst.call_of(self.held.bind(endless_request()).handle).SerializeToString())
        return burst.channel

    def others_are_served(self) -> None:
        addition = addition_in_ashmem()
        addition.check(lambda: self._other.execute(addition.request), 1, 2)


class OnFramework:
    """A framework with the model, and clients of every kind."""

    def __init__(self, served: Served, stack: ExitStack) -> None:
        self.served, self._stack = served, stack

    def bound(self, way: str) -> Run:
        if way == "native":
            return endless_binding(self._stack.enter_context(connect(self.served.endpoint.directory))).run

        def infer(deadline_ns: int) -> None:
            with Triton(way, APIS[way], getattr(self.served, way)) as client:
                try:
                    client.infer("endless", START, timeout=max((deadline_ns - now_ns()) // 1000, 1))
                except InferenceServerException as error:
                    assert status_of(error) == LATE[way]
                    raise HalError(ErrorStatus.MISSED_DEADLINE_TRANSIENT, str(error)) from error

        return infer

    def others_are_served(self) -> None:
        with Triton("http", tritonclient.http, self.served.http) as client:
            got = client.infer("tanh", {"x": numbers()}).as_numpy("y")
        np.testing.assert_allclose(got, np.tanh(numbers()), atol=1e-5)


def endless_binding(session: Framework, direct: bool = True) -> Binding:
    binding = session.open("endless").bind(direct=direct)
    binding.inputs[INPUT][...] = 1
    return binding


@contextmanager
def place_of(request: pytest.FixtureRequest, name: str) -> Iterator[OnDevice | OnFramework]:
    with ExitStack() as stack:
        found = request.getfixturevalue("served" if name == "framework" else name)
        yield OnFramework(found, stack) if name == "framework" else OnDevice(found, stack)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[OnDevice | OnFramework]:
    with place_of(request, request.param) as found:
        yield found


@pytest.fixture(params=["cpu_acc", "cpu_ref"])
def device(request: pytest.FixtureRequest) -> Iterator[OnDevice]:
    """Each device that has operators of ONNX: one whose work a library does, and one that computes itself."""
    with place_of(request, request.param) as found:
        assert isinstance(found, OnDevice)
        yield found


@pytest.fixture
def framework(served: Served) -> Iterator[OnFramework]:
    with ExitStack() as stack:
        yield OnFramework(served, stack)


@pytest.fixture
def session(served: Served) -> Iterator[Framework]:
    with connect(served.endpoint.directory) as session:
        yield session


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(12) as pool:
        yield pool


def misses(call: Callable[[], object]) -> None:
    """Check that a call misses its deadline: on a busy machine that may have passed before it begins."""
    with pytest.raises(HalError) as late:
        call()
    assert late.value.status in MISSED, str(late.value)


EVERY_WAY = [
    *product(["cpu_acc", "cpu_ref"], WAYS),
    ("remote", "burst"),
    *product(["framework"], ["grpc", "http", "native"]),
]


@pytest.mark.parametrize(("place", "way"), EVERY_WAY, indirect=["place"])
def test_it_ends_at_its_deadline(place: OnDevice | OnFramework, way: str) -> None:
    run = place.bound(way)
    misses(lambda: run(now_ns() + SOON_NS))
    place.others_are_served()


@pytest.mark.parametrize(
    ("place", "way"),
    [("cpu_acc", "burst-reusable"), ("cpu_ref", "burst-reusable"), ("framework", "http")],
    indirect=["place"],
)
def test_several_end_at_their_deadlines_while_others_wait(
    place: OnDevice | OnFramework, way: str, threads: ThreadPoolExecutor
) -> None:
    bound = [place.bound(way) for _ in range(10)]
    deadline_ns = now_ns() + SOON_NS
    runs = [threads.submit(run, deadline_ns) for run in bound]
    place.others_are_served()
    for each in runs:
        misses(partial(each.result, SECONDS))


@pytest.mark.contract("FC-06", "FC-11")
def test_an_execution_that_is_launched_may_take_as_long_as_it_was_allowed_once_it_begins(device: OnDevice) -> None:
    device.held.launch(endless_request(), duration_ns=SOON_NS).require_error(*MISSED)
    device.others_are_served()


@pytest.mark.parametrize("place", ["cpu_acc", "cpu_ref", "remote"], indirect=True)
def test_an_execution_ends_when_its_client_closes_the_burst(place: OnDevice) -> None:
    place.begin().close()
    place.others_are_served()


def test_a_client_that_says_no_more_on_a_burst_learns_of_its_end(device: OnDevice) -> None:
    channel = device.begin()
    channel.end_sending()
    told = channel.receive()
    assert told is not None
    answer = burst_pb2.BurstAnswer.FromString(told.message)
    assert (ErrorStatus(answer.status), answer.message) == (FAILURE, "its client does not wait for it any more")
    device.others_are_served()


def test_an_execution_ends_with_its_session(device: OnDevice) -> None:
    device.begin()
    launched = device.held.launch(endless_request())  # waits for the only worker
    device.held.session.close()
    device.others_are_served()
    assert launched.fence is not None
    launched.fence.wait_for_end()
    assert launched.fence.state is FenceState.ERROR


def test_an_execution_ends_with_the_call_that_runs_it(device: OnDevice) -> None:
    session = device.held.session
    message = prepared_model_pb2.PreparedModelServiceExecuteSynchronouslyWithConfigRequest(
        prepared_model=device.held.handle, request=session.request(endless_request()), deadline_ns=NO_DEADLINE
    )
    stub: Any = session.prepared_model.ExecuteSynchronouslyWithConfig
    call = stub.future(message, metadata=session.metadata)
    own = admin_pb2_grpc.AdminServiceStub(session.rpc)
    ask = admin_pb2.GetProcessRequest()
    wait_until(lambda: bool(own.GetProcess(ask, metadata=session.metadata).executions), "the execution has begun")
    call.cancel()
    device.others_are_served()


@pytest.mark.parametrize("launch", LAUNCHES)
def test_an_execution_that_is_launched_ends_when_its_fence_is_cancelled(device: OnDevice, launch: str) -> None:
    launched = LAUNCHES[launch](device.held, endless_request())()
    assert launched.fence is not None
    launched.fence.cancel()
    launched.fence.wait_for_end()
    launched.require_error(FAILURE)
    device.others_are_served()


def is_running(admin: ProcessAdmin) -> None:
    """Wait until the process of an operator runs something."""
    wait_until(lambda: bool(admin.process().executions), "the run has begun")


def cancel(operator: AbstractContextManager[ProcessAdmin]) -> None:
    """Have an operator end what runs."""
    with operator as admin:
        is_running(admin)
        admin.cancel_execution(admin.process().executions[0].id)


@pytest.mark.parametrize("driver", ["cpu_acc", "cpu_ref"])
def test_an_operator_ends_an_execution(tmp_path: Path, driver: str) -> None:
    with device_process(driver, tmp_path) as (child, endpoint), ExitStack() as stack:
        device = OnDevice(endpoint, stack)
        run = Beside(partial(device.bound("request"), NO_DEADLINE))
        cancel(DeviceAdmin(endpoint, child.admin_key))
        refusal(run.result, FAILURE, "cancelled by an operator")
        device.others_are_served()


@pytest.fixture
def stuck(served: Served) -> Iterator[socket.socket]:
    """A connection over which a request of the endless model has come, which has no timeout and runs."""
    body = b'{"inputs":[{"name":"start","shape":[1],"datatype":"FP32","data":[1]}]}'
    head = b"POST /v2/models/endless/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", served.port), timeout=SECONDS) as connection:
        connection.sendall(head + body)
        with operator_of(served) as admin:
            is_running(admin)
        yield connection


@pytest.mark.parametrize("way", APIS)
def test_a_request_waits_no_longer_than_its_timeout_behind_one_that_is_stuck(
    framework: OnFramework, way: str, stuck: socket.socket
) -> None:
    misses(lambda: framework.bound(way)(now_ns() + SOON_NS))
    stuck.close()
    framework.others_are_served()


def test_others_do_not_wait_for_ever_for_a_request_that_is_stuck(framework: OnFramework, stuck: socket.socket) -> None:
    framework.others_are_served()
    stuck.close()


def test_a_request_ends_with_its_connection(framework: OnFramework, stuck: socket.socket) -> None:
    stuck.close()
    framework.others_are_served()


def test_an_operator_ends_a_request(framework: OnFramework, stuck: socket.socket) -> None:
    cancel(operator_of(framework.served))
    assert stuck.recv(1 << 16).startswith(b"HTTP/1.1 499")
    framework.others_are_served()


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


@pytest.mark.parametrize("direct", [True, False])
def test_a_native_run_ends_with_its_session(framework: OnFramework, work: Work, direct: bool) -> None:
    with connect(framework.served.endpoint.directory) as session:
        run = Beside(endless_binding(session, direct).run)
        work.has_begun()
    with pytest.raises(NnhalError):
        run.result()
    framework.others_are_served()


@pytest.mark.parametrize("by_duration", [False, True])
def test_a_launched_run_ends_at_its_deadline(framework: OnFramework, session: Framework, by_duration: bool) -> None:
    binding = endless_binding(session)
    deadline_ns, duration_ns = (NO_DEADLINE, SOON_NS) if by_duration else (now_ns() + SOON_NS, NO_DEADLINE)
    launched = binding.launch((), deadline_ns, duration_ns)
    misses(launched.wait)
    framework.others_are_served()


def test_a_launched_run_can_be_cancelled(framework: OnFramework, session: Framework, work: Work) -> None:
    binding = endless_binding(session)
    launched = binding.launch()
    work.has_begun()
    launched.cancel()
    refusal(launched.wait, FAILURE, "the run was cancelled$")
    framework.others_are_served()


@pytest.mark.parametrize("way", ["Run", "channel"])
def test_an_operator_ends_a_native_run(framework: OnFramework, session: Framework, way: str) -> None:
    binding = endless_binding(session, direct=False)
    message = wire.RunRequest(binding=binding._handle, deadline_ns=NO_DEADLINE)
    run = Beside(binding.run if way == "channel" else lambda: session.calls.call(session.stub.Run, message))
    cancel(operator_of(framework.served))
    with pytest.raises(HalError, match="the run was cancelled"):
        run.result()
    framework.others_are_served()


def test_a_model_is_unloaded_though_it_runs(framework: OnFramework, session: Framework) -> None:
    model = session.load(framework.served.repository / "endless" / "1" / "model.onnx")
    binding = model.bind(direct=False)
    run = Beside(binding.run)
    with operator_of(framework.served) as admin:
        is_running(admin)
    model.unload()
    with pytest.raises(HalError, match="the model has been unloaded"):
        run.result()
    framework.others_are_served()


def test_a_model_of_the_repository_is_unloaded_though_it_runs(framework: OnFramework, stuck: socket.socket) -> None:
    with Triton("http", tritonclient.http, framework.served.http) as client:
        client.client.unload_model("endless")
        assert stuck.recv(1 << 16).startswith(b"HTTP/1.1 499")
        framework.others_are_served()
        client.client.load_model("endless")
        misses(lambda: framework.bound("http")(now_ns() + SOON_NS))
