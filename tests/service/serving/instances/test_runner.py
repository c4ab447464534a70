"""Threads that serve runs: in the event loop if nothing of them waits; and devices there that stall or die."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import helper

from nnhal.arrays import Array
from nnhal.endpoint import Endpoint
from nnhal.remote import RemoteDevice
from nnhal.types import NO_DEADLINE
from nnhal_frontends import import_model
from nnhal_service.partition import Options, Pin
from nnhal_service.runtime import Fleet, LoadedModel, OutputTooSmallError, prepare
from nnhal_service.serving import (
    ErrorKind,
    Executed,
    FailureReason,
    Finished,
    InferenceRequest,
    ServedModel,
    ServingConfig,
    ServingError,
    ServingLoop,
)
from nnhal_service.serving.instances.runner import RequestRunner
from nnhal_service.serving.loop import MOST_BYTES_IN_LOOP
from nnhal_service.serving.requests.client_memory import to_array
from nnhal_service.serving.requests.signature import ModelSignature
from tests.service.serving.conftest import Serve
from tests.support.held_device import NAME, HeldDevice, held_device
from tests.support.onnx_models import onnx_model, random
from tests.support.serving import shared_loop
from tests.support.waiting import wait_for_death, wait_until


class Where:
    """An observer that notes the thread in which each run has ended."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def executed(self, executed: Executed) -> None:
        self.threads.append(threading.current_thread())

    def finished(self, finished: Finished) -> None:
        """Always in the loop."""


async def _here() -> threading.Thread:
    return threading.current_thread()


def thread_of(loop: ServingLoop) -> threading.Thread:
    return loop.run(_here())


def relu(shape: tuple[int | str, ...] = (1, 2)) -> bytes:
    """y = relu(x)."""
    node = helper.make_node("Relu", ["x"], ["y"], name="step")
    return onnx_model([node], {"x": shape}, ["y"]).SerializeToString()


async def answer(served: ServedModel, request: InferenceRequest) -> Array:
    with await served.infer(request) as response:
        return to_array(response.outputs["y"]).copy()


def infer(served: ServedModel, x: Array, timeout_ns: int = 0) -> Future[Array]:
    return shared_loop().submit(answer(served, InferenceRequest({"x": x}, timeout_ns=timeout_ns)))


class Rig:
    """A model on a device whose executions are held, and one on another device, in the same loop."""

    def __init__(self, held: HeldDevice, other: Endpoint, stack: ExitStack) -> None:
        self.held = held
        self.where = Where()
        self._stack = stack
        self._fleet = Fleet({NAME: held.endpoint, "cpu_ref": other})
        stack.callback(self._fleet.close)
        self.slow = self._serve(NAME)
        self.other = self._serve("cpu_ref")

    def _serve(self, device: str) -> ServedModel:
        options = Options(pins=(Pin("name:*", device),))
        loaded = LoadedModel(prepare(import_model(relu()), self._fleet, (), options))
        self._stack.callback(loaded.close)
        served = ServedModel(device, "1", loaded, ServingConfig(), shared_loop(), [self.where])
        self._stack.callback(served.close)
        self._stack.callback(self.held.hold_no_more)
        return served

    def warm_up(self) -> None:
        """Make an instance of each model, so that the next runs are in the loop."""
        first = infer(self.slow, row(0, 0))
        self.held.next().let_go()
        first.result(30)
        self.require_other()

    def require_other(self) -> None:
        """Require that the other model is served, in the loop if it has been before."""
        np.testing.assert_array_equal(infer(self.other, row(1, -1)).result(30), row(1, 0))


@pytest.fixture
def rig(short_path: Path, cpu_ref: Endpoint) -> Iterator[Rig]:
    with ExitStack() as stack:
        rig = Rig(stack.enter_context(held_device(short_path)), cpu_ref, stack)
        rig.warm_up()
        yield rig


def row(*values: float) -> Array:
    return np.array([values], np.float32)


def test_a_request_for_an_idle_instance_crosses_no_thread(serve: Serve) -> None:
    where, loop, blocked = Where(), shared_loop(), threading.Event()
    served = serve(onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 3)}, ["y"]), observers=[where])
    x = random(2, 3)
    served.infer_and_wait(InferenceRequest({"x": x})).release()

    async def block() -> list[asyncio.Future[bool]]:
        return [loop.compute(blocked.wait) for _ in range(100)]

    loop.run(block())  # more than there are threads
    try:
        threads = threading.active_count()
        for _ in range(20):
            assert (loop.run(answer(served, InferenceRequest({"x": x}))) == np.maximum(x, 0)).all()
        assert threading.active_count() == threads
    finally:
        blocked.set()
    assert where.threads[0] is not thread_of(loop)  # its instance had to be made
    assert where.threads[1:] == [thread_of(loop)] * 20


def test_large_tensors_are_copied_in_a_thread(serve: Serve) -> None:
    where = Where()
    model = onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("n", 4)}, ["y"])
    served = serve(model, observers=[where])
    rows = MOST_BYTES_IN_LOOP // 16
    for count in (rows, rows, rows + 1, rows + 1):
        x = random(count, 4)
        np.testing.assert_array_equal(shared_loop().run(answer(served, InferenceRequest({"x": x}))), np.maximum(x, 0))
    here = thread_of(shared_loop())
    assert [thread is here for thread in where.threads] == [False, True, False, False]


def test_a_device_that_stalls_keeps_neither_the_loop_nor_other_models_waiting(rig: Rig) -> None:
    runs = [infer(rig.slow, row(number, -1)) for number in range(3)]
    execution = rig.held.next()
    for _ in range(10):
        rig.require_other()
    assert rig.where.threads[-10:] == [thread_of(shared_loop())] * 10
    assert not any(run.done() for run in runs)
    execution.let_go()
    for _ in runs[1:]:
        rig.held.next().let_go()
    assert [run.result(30).tolist() for run in runs] == [[[number, 0]] for number in range(3)]


def test_a_device_that_dies_in_the_middle_of_a_run_is_replaced(rig: Rig) -> None:
    with RemoteDevice(rig.held.endpoint, "test") as device:
        pid = device.pid
    run = infer(rig.slow, row(3, -3))
    execution = rig.held.next()
    os.kill(pid, signal.SIGKILL)
    wait_for_death(pid)
    execution.let_go()
    np.testing.assert_array_equal(run.result(30), row(3, 0))
    rig.require_other()

    def is_in_the_loop_again() -> bool:
        np.testing.assert_array_equal(infer(rig.slow, row(4, -3)).result(30), row(4, 0))
        return rig.where.threads[-1] is thread_of(shared_loop())

    wait_until(is_in_the_loop_again, "the model is planned without the device")


def test_a_run_that_outlasts_its_deadline_is_answered_and_ends_later(rig: Rig) -> None:
    late = infer(rig.slow, row(5, 5), timeout_ns=50_000_000)
    execution = rig.held.next()
    rig.require_other()
    with pytest.raises(ServingError, match=r"has not ended 0\.5 s after its deadline") as error:
        late.result(30)
    assert error.value.kind is ErrorKind.DEADLINE_EXCEEDED
    assert rig.slow.statistics().failures[FailureReason.BACKEND] == 1
    after = infer(rig.slow, row(6, -6))  # on another instance, while the first one is in use
    execution.let_go()
    rig.held.next().let_go()
    np.testing.assert_array_equal(after.result(30), row(6, 0))
    rig.slow.close()
    with RemoteDevice(rig.held.endpoint, "test") as device:
        wait_until(lambda: device.usage().executions == 0, "the device has nothing left")


def test_a_task_that_is_cancelled_ends_with_its_run(rig: Rig) -> None:
    loop = shared_loop().asyncio

    async def begin() -> asyncio.Task[Array]:
        return loop.create_task(answer(rig.slow, InferenceRequest({"x": row(7, 7)})))

    async def cancel(task: asyncio.Task[Array]) -> bool:
        task.cancel()
        await asyncio.wait([task], timeout=0)
        return task.done()

    async def ended(task: asyncio.Task[Array]) -> bool:
        await asyncio.wait([task], timeout=30)
        return task.cancelled()

    task = shared_loop().run(begin())
    execution = rig.held.next()
    assert not shared_loop().run(cancel(task))  # the device uses the memory
    execution.let_go()
    assert shared_loop().run(ended(task))
    assert rig.slow.statistics().failures[FailureReason.CANCELED] == 1
    after = infer(rig.slow, row(8, -8))
    rig.held.next().let_go()
    np.testing.assert_array_equal(after.result(30), row(8, 0))


def test_a_task_that_is_cancelled_in_the_queue_leaves_it(rig: Rig) -> None:
    running, waiting = infer(rig.slow, row(1, 1)), infer(rig.slow, row(2, 2))
    execution = rig.held.next()
    wait_until(lambda: rig.slow.pending == 1, "the second request waits")
    waiting.cancel()
    wait_until(lambda: rig.slow.pending == 0, "it has left the queue")
    execution.let_go()
    running.result(30)
    assert rig.slow.statistics().failures[FailureReason.CANCELED] == 1


class _Instance:
    """An instance whose outputs do not fit."""

    inputs = (np.zeros(2, np.float32),)

    def run(self, deadline_ns: int, cancellation: object) -> None:
        raise OutputTooSmallError("cpu_ref", [])


class _Pool:
    """Instances, and those that were given back."""

    def __init__(self, larger: _Instance) -> None:
        self._larger = larger
        self.given_back: list[object] = []

    def replace(self, instance: object, error: Exception, deadline_ns: int) -> _Instance:
        return self._larger

    def give_back(self, instance: object, failed: bool = False) -> None:
        self.given_back.append(instance)


def test_an_instance_whose_inputs_are_gone_is_given_back_once() -> None:
    """A larger one takes its place, and memory of the client has shrunk meanwhile: two runs must not share it."""
    larger = _Instance()
    pool = _Pool(larger)
    loop: Any = None
    runner = RequestRunner("m", ModelSignature("m", (), (), 0), pool, None, None, lambda *_: None, loop)  # type: ignore[arg-type]
    gone = np.zeros(3, np.float32)  # does not fit
    batch: Any = SimpleNamespace(columns=[(gone,)], deadline_ns=NO_DEADLINE, cancellation=None)
    with pytest.raises(ValueError, match="broadcast"):
        runner._run_on(batch, _Instance())  # type: ignore[arg-type]
    assert pool.given_back == [larger]
