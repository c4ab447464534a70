"""Requests that are cancelled while the first step of their run is on its device, a process of its own."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from nnhal.arrays import Array
from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from nnhal_frontends import import_model
from nnhal_service.partition import Fallback, Options, Pin
from nnhal_service.runtime import Fleet, LoadedModel, prepare
from nnhal_service.serving import (
    Batching,
    Cancellation,
    ErrorKind,
    FailureReason,
    InferenceRequest,
    ServedModel,
    ServingConfig,
    ServingError,
)
from nnhal_service.serving.requests.client_memory import to_array
from tests.service.fronted import in_front_of
from tests.service.v2.http.conftest import serving as serving_http
from tests.support.held_device import NAME, HeldDevice, HeldExecution, held_device
from tests.support.onnx_models import onnx_model
from tests.support.processes import own_device
from tests.support.serving import shared_loop
from tests.support.v2 import FakeModel, floats, in_bytes, raw_request
from tests.support.v2_front import serving as serving_grpc
from tests.support.waiting import wait_until


class Rig:
    """y = tanh(relu(x)) in steps of which one is held, and a session with the device of the last one."""

    def __init__(self, held: HeldDevice, last: Endpoint, gpu: Endpoint, stack: ExitStack) -> None:
        self.held = held
        self._stack = stack
        self._fleet = Fleet({NAME: held.endpoint, "gpu_acc": gpu, "cpu_ref": last})
        self._last = stack.enter_context(RemoteDevice(last, "test"))
        self._threads = stack.enter_context(ThreadPoolExecutor())
        stack.callback(held.hold_no_more)
        stack.callback(self._fleet.close)

    def serve(
        self,
        config: ServingConfig | None = None,
        fallback: Fallback = Fallback.ALLOW,
        devices: Sequence[str] = (NAME, "cpu_ref"),
    ) -> ServedModel:
        """Serve the model with a step on each of these devices, in this order."""
        names = ["x", *(f"r{number}" for number in range(1, len(devices))), "y"]
        operators = ["Relu"] * (len(devices) - 1) + ["Tanh"]
        nodes = [
            helper.make_node(operator, [names[number]], [names[number + 1]], name=f"step{number}")
            for number, operator in enumerate(operators)
        ]
        model = onnx_model(nodes, {"x": ["n", 2] if config else [1, 2]}, ["y"]).SerializeToString()
        pins = tuple(Pin(f"name:step{number}", device) for number, device in enumerate(devices))
        options = Options(pins=pins, fallback=fallback)
        loaded = LoadedModel(prepare(import_model(model), self._fleet, (), options))
        self._stack.callback(loaded.close)
        served = ServedModel("m", "1", loaded, config or ServingConfig(), shared_loop())
        self._stack.callback(served.close)
        self._stack.callback(self.held.hold_no_more)
        return served

    @property
    def executions_of_last(self) -> int:
        return self._last.usage().executions_ended

    def infer(self, served: ServedModel, x: Array, cancellation: Cancellation | None = None) -> Future[Array]:
        def run() -> Array:
            with served.infer_and_wait(
                InferenceRequest({"x": x}, cancellation=cancellation or Cancellation())
            ) as response:
                return to_array(response.outputs["y"]).copy()

        return self._threads.submit(run)

    def begun(self) -> HeldExecution:
        """Wait for the held step of a run, for which the last step waits."""
        execution = self.held.next()
        wait_until(self._last_step_waits, "the last step is wired or launched")
        return execution

    def _last_step_waits(self) -> bool:
        usage = self._last.usage()
        return usage.stages + usage.launched == 1

    def still_runs(self, served: ServedModel) -> None:
        """Require that the next request runs, in the memory of the earlier ones."""
        run = self.infer(served, row(0.5, -3))
        self.held.next().let_go()
        np.testing.assert_allclose(run.result(30), np.tanh(row(0.5, 0)), atol=1e-6)


@pytest.fixture(scope="module")
def gpu_acc() -> Iterator[Endpoint]:
    with own_device("gpu_acc") as (_, endpoint):
        yield endpoint


@pytest.fixture
def rig(short_path: Path, cpu_ref: Endpoint, gpu_acc: Endpoint) -> Iterator[Rig]:
    with ExitStack() as stack:
        yield Rig(stack.enter_context(held_device(short_path)), cpu_ref, gpu_acc, stack)


def row(*values: float) -> Array:
    return np.array([values], np.float32)


def refusal(run: Future[Array]) -> ServingError:
    with pytest.raises(ServingError) as error:
        run.result(30)
    return error.value


@pytest.mark.parametrize("fallback", [Fallback.ALLOW, Fallback.DENY])
@pytest.mark.parametrize(
    "devices", [(NAME, "cpu_ref"), ("gpu_acc", NAME, "cpu_ref"), (NAME, "gpu_acc", "cpu_ref")], ids=", ".join
)
def test_the_device_of_the_next_step_never_sees_it(rig: Rig, devices: Sequence[str], fallback: Fallback) -> None:
    served = rig.serve(fallback=fallback, devices=devices)
    rig.still_runs(served)
    before = rig.executions_of_last
    for _ in range(3):
        cancellation = Cancellation()
        run = rig.infer(served, row(1, 2), cancellation)
        execution = rig.begun()
        cancellation.cancel()
        assert not run.done()  # the step writes its memory until it ends
        execution.let_go()
        error = refusal(run)
        assert (error.kind, error.message) == (ErrorKind.CANCELLED, "the request has been cancelled")
    assert rig.executions_of_last == before
    assert served.statistics().failures[FailureReason.CANCELED] == 3
    rig.still_runs(served)
    assert rig.executions_of_last == before + 1


def batch(rig: Rig, served: ServedModel, cancelled: Sequence[bool]) -> list[Future[Array]]:
    """Run a batch of requests, and cancel these of them while its first step runs."""
    cancellations = [Cancellation() for _ in cancelled]
    runs = [rig.infer(served, row(number, -1), each) for number, each in enumerate(cancellations)]
    execution = rig.held.next()
    for cancellation, gives_up in zip(cancellations, cancelled, strict=True):
        if gives_up:
            cancellation.cancel()
    execution.let_go()
    return runs


def test_a_batch_goes_on_while_one_of_it_is_wanted(rig: Rig) -> None:
    batching = Batching(preferred_batch_sizes=(3,), max_queue_delay_ns=3600 * 10**9)
    served = rig.serve(ServingConfig(max_batch_size=3, batching=batching))
    first, second, third = batch(rig, served, [True, False, True])
    assert {refusal(first).kind, refusal(third).kind} == {ErrorKind.CANCELLED}
    np.testing.assert_allclose(second.result(30), np.tanh(row(1, 0)), atol=1e-6)
    before = rig.executions_of_last
    assert {refusal(run).kind for run in batch(rig, served, [True, True, True])} == {ErrorKind.CANCELLED}
    assert rig.executions_of_last == before
    runs = batch(rig, served, [False] * 3)
    np.testing.assert_allclose(np.concatenate([run.result(30) for run in runs])[:, 0], np.tanh(np.arange(3)), atol=1e-6)


def counted(served: ServedModel) -> int:
    return served.statistics().failures[FailureReason.CANCELED]


def cancelled_after(model: FakeModel) -> threading.Event:
    """An event that is set when the model's first request is cancelled, after the run has been told."""
    cancelled = threading.Event()
    model.requests[0].cancellation.on_cancel(cancelled.set)
    return cancelled


def test_a_call_over_grpc_that_is_cancelled(rig: Rig, short_path: Path) -> None:
    served, before = rig.serve(), rig.executions_of_last
    with serving_grpc(short_path, in_front_of(served)) as front:
        request = raw_request(x=floats(1, 2)).SerializeToString()
        call = in_bytes(front.channel, "ModelInfer").future(request, wait_for_ready=True)
        execution = rig.begun()
        cancelled = cancelled_after(front.model)
        call.cancel()  # type: ignore[no-untyped-call]
        assert cancelled.wait(60)
        execution.let_go()
        wait_until(lambda: counted(served) == 1, "the run has ended")
        assert rig.executions_of_last == before
        rig.still_runs(served)


def test_a_client_over_http_that_hangs_up(rig: Rig) -> None:
    served, before = rig.serve(), rig.executions_of_last
    with serving_http(in_front_of(served)) as front:
        url = front.client.base_url
        entry = {"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]}
        body = json.dumps({"inputs": [entry]}).encode()
        head = f"POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with socket.create_connection((url.host, url.port or 0)) as connection:
            connection.sendall(head + body)
            execution = rig.begun()
            cancelled = cancelled_after(front.model)
        assert cancelled.wait(60)
        execution.let_go()
        wait_until(lambda: counted(served) == 1, "the run has ended")
        assert rig.executions_of_last == before
        rig.still_runs(served)
