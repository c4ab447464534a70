"""Devices that hang while requests wait for them: they are killed or given up, and every answer is right."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus
from nnhal_client import Binding, Model, connect
from tests.support.front_workers import Connection
from tests.support.held_device import NAME, HeldDevice, HeldExecution, held_device, held_process
from tests.support.model_server import Devices, Served, model_server
from tests.support.operated import Beside
from tests.support.processes import device_process
from tests.support.repositories import numbers, onnx_file, write
from tests.support.waiting import stop, wait_for_death, wait_until

pytestmark = pytest.mark.slow
SHAPE = (1, 8)
PTRACE_SEIZE, CLONE_NEWPID = 0x4206, 0x20000000  # linux/ptrace.h, linux/sched.h
CONFIG = f'parameters {{ key: "nnhal.placement" value {{ string_value: "name:node={NAME}" }} }}'


@dataclass(frozen=True)
class Held:
    """A framework whose model runs on a device that a test holds, with cpu_ref to fall back on."""

    device: HeldDevice
    pid: int
    served: Served
    model: Path

    def infer(self) -> None:
        """Run the model over the protocol, and check the answer."""
        connection = Connection(self.served.http)
        try:
            status, answer = connection.infer()
        finally:
            connection.close()
        assert status == 200, answer
        np.testing.assert_allclose(answer["outputs"][0]["data"], np.tanh(numbers())[0], atol=1e-6)


@pytest.fixture
def workers() -> str:
    """Return how many processes serve: with one, it is the framework itself."""
    return "1"


@pytest.fixture
def held(workers: str, short_path: Path, tmp_path: Path) -> Iterator[Held]:
    with framework(short_path, tmp_path, "--front-workers", workers) as held:
        yield held


@pytest.fixture
def impatient(short_path: Path, tmp_path: Path) -> Iterator[Held]:
    """A framework that soon takes a device for one that hangs, and says what it does about it."""
    with framework(short_path, tmp_path, "--front-workers", "1", "--hang-secs", "0.2", "--log-level", "info") as held:
        yield held


@contextmanager
def framework(directory: Path, files: Path, *options: str) -> Iterator[Held]:
    """Run the devices under ``directory``, and the framework."""
    repository = files / "repository"
    folder = write(repository, "tanh", {"1/model.onnx": onnx_file(shape=SHAPE), "config.pbtxt": CONFIG})
    with held_device(directory) as device, device_process("cpu_ref", directory) as (child, reference):
        with RemoteDevice(device.endpoint) as remote:
            pid = remote.pid
        over = Devices({NAME: device.endpoint, "cpu_ref": reference}, {NAME: pid, "cpu_ref": child.pid})
        with model_server(over, repository, *options) as served:
            yield Held(device, pid, served, folder / "1" / "model.onnx")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_device_that_was_stopped_is_fallen_back_from_and_used_again_when_it_continues(held: Held) -> None:
    run_once(held)
    second = Beside(held.infer)
    execution = held.device.next()
    stop(held.pid)
    second.result()
    for _ in range(3):
        held.infer()
    os.kill(held.pid, signal.SIGCONT)
    execution.let_go()
    held.device.hold_no_more()
    wait_until(lambda: is_used(held), "the device is used again")


def is_used(held: Held) -> bool:
    """Return whether a request that is right runs on the device."""
    with RemoteDevice(held.device.endpoint) as remote:
        before = remote.usage().executions_ended
        held.infer()
        return remote.usage().executions_ended > before


def test_what_a_device_that_was_stopped_writes_when_it_continues_is_in_no_answer(held: Held) -> None:
    with connect(held.served.endpoint.directory) as framework:
        binding = framework.load(held.model, pins={"name:*": NAME}).bind()
        first = Beside(binding.run)
        held.device.next().let_go()
        first.result()
        second = Beside(binding.run)
        execution = held.device.next()
        stop(held.pid)
        with pytest.raises(HalError) as caught:
            second.result()
        assert caught.value.status == ErrorStatus.DEVICE_UNAVAILABLE
        other = framework.load(held.model).bind()
        other.inputs["x"][:] = numbers()
        other.run()
        np.testing.assert_allclose(other.outputs["y"], np.tanh(numbers()), atol=1e-6)
        os.kill(held.pid, signal.SIGCONT)
        execution.let_go()
        held.device.hold_no_more()
        wait_until(lambda: is_ready(binding), "the binding can be used again")
        binding.inputs["x"][:] = numbers()
        binding.run()
        np.testing.assert_allclose(binding.outputs["y"], np.tanh(numbers()), atol=1e-6)


def is_ready(binding: Binding) -> bool:
    """Return whether a binding runs, and not into memory that a device may still write to."""
    try:
        binding.run()
    except HalError as error:
        assert error.status == ErrorStatus.DEVICE_UNAVAILABLE
        return False
    return True


def run_once(held: Held) -> None:
    """Have the first run behind the model, in which a device may be busy for long."""
    first = Beside(held.infer)
    held.device.next().let_go()
    first.result()


def test_a_device_whose_driver_keeps_the_interpreter_is_killed_and_used_again_once_it_is_started(
    held: Held, short_path: Path
) -> None:
    run_once(held)
    second = Beside(held.infer)
    execution = held.device.next()
    execution.keep_interpreter()
    wait_for_death(held.pid)
    execution.let_go()
    second.result()
    held.device.hold_no_more()
    with held_process(short_path):
        wait_until(lambda: is_used(held), "the device is used again")


def test_a_device_that_the_framework_cannot_kill_is_fallen_back_from(
    short_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has a process see other processes no more")
    command = tmp_path / "python"
    command.write_text(_IN_ITS_OWN_NAMESPACE.format(python=sys.executable, clone=CLONE_NEWPID))
    command.chmod(0o700)
    repository = tmp_path / "repository"
    write(repository, "tanh", {"1/model.onnx": onnx_file(shape=SHAPE), "config.pbtxt": CONFIG})
    with held_device(short_path) as device, device_process("cpu_ref", short_path) as (_, reference):
        over = Devices({NAME: device.endpoint, "cpu_ref": reference}, {})
        monkeypatch.setattr(sys, "executable", str(command))
        with model_server(over, repository, "--hang-secs", "0.2", zygote=None) as served:
            monkeypatch.undo()
            held = Held(device, 0, served, repository)
            run_once(held)
            second = Beside(held.infer)
            execution = held.device.next()
            execution.keep_interpreter()
            second.result()
            assert "cannot be killed from here" in served.child.said()
            execution.let_go()
            held.device.hold_no_more()
            wait_until(lambda: is_used(held), "the device is used again")


_IN_ITS_OWN_NAMESPACE = """#!{python}
import ctypes, os, signal, sys

if ctypes.CDLL(None).unshare({clone}):
    sys.exit("no namespace of process ids")
child = os.fork()
if not child:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def is_left_alone(held: Held, execution: HeldExecution, reason: str) -> None:
    """Check that the device goes on, though it did not answer, when what it is busy with is over."""
    execution.keep_interpreter()
    wait_until(lambda: reason in held.served.child.said(), "the framework has noticed")
    execution.let_go()
    held.device.hold_no_more()


def test_a_device_that_is_debugged_is_left_alone(impatient: Held) -> None:
    run_once(impatient)
    second = Beside(impatient.infer)
    execution = impatient.device.next()
    with traced(impatient.pid):
        is_left_alone(impatient, execution, "a debugger traces it")
        second.result()  # else the tracing could end before the device has answered again
    assert is_used(impatient)


@contextmanager
def traced(pid: int) -> Iterator[None]:
    """Trace a process, as a debugger does, with a thread: when that ends, so does the tracing."""
    refused: list[int] = []
    traced, over = threading.Event(), threading.Event()

    def trace() -> None:
        refused.append(ctypes.CDLL(None).ptrace(PTRACE_SEIZE, pid, None, None))
        traced.set()
        over.wait()

    thread = threading.Thread(target=trace)
    thread.start()
    try:
        traced.wait()
        if refused[0]:
            pytest.skip("this process may trace no other")
        yield
    finally:
        over.set()
        thread.join()


def test_a_device_that_is_busy_with_a_first_run_is_left_alone(impatient: Held) -> None:
    first = Beside(impatient.infer)
    is_left_alone(impatient, impatient.device.next(), "it has the first run of a model")
    first.result()
    assert is_used(impatient)


@contextmanager
def preparing(impatient: Held, files: Path) -> Iterator[tuple[Beside[Model], HeldExecution]]:
    """Have the device prepare another model, which is held. Yields the loading of the model and the preparation."""
    run_once(impatient)
    other = files / "other.onnx"
    other.write_bytes(onnx_file(shape=(1, 16)))
    with connect(impatient.served.endpoint.directory) as client:
        impatient.device.hold_preparations()
        loading = Beside(lambda: client.load(other, pins={"name:*": NAME}))
        yield loading, impatient.device.next_preparation()


def test_a_device_that_prepares_a_model_is_left_alone(impatient: Held, tmp_path: Path) -> None:
    with preparing(impatient, tmp_path) as (loading, preparation):
        second = Beside(impatient.infer)
        execution = impatient.device.next()
        is_left_alone(impatient, preparation, "it prepares a model")
        execution.let_go()
        second.result()
        loading.result()
    assert is_used(impatient)


def test_a_device_that_was_stopped_while_it_prepares_is_fallen_back_from(impatient: Held, tmp_path: Path) -> None:
    with preparing(impatient, tmp_path) as (loading, preparation):
        stop(impatient.pid)
        Beside(impatient.infer).result()
        with pytest.raises(HalError) as caught:  # it may run nowhere else
            loading.result()
        assert caught.value.status == ErrorStatus.DEVICE_UNAVAILABLE
        os.kill(impatient.pid, signal.SIGCONT)
        preparation.let_go()
