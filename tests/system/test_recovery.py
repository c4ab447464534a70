"""Devices that die or fail while models run on them: no request is lost if fallback is allowed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from nnhal.arrays import Array
from nnhal.errors import DeadObjectError, HalError
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus
from nnhal_client import Framework, Model, connect
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from tests.support.deaths import kill_for_good
from tests.support.processes import WARM
from tests.support.waiting import wait_until

DEVICES = ("gpu_acc", "cpu_acc", "cpu_ref")


@pytest.fixture
def testbed(short_path: Path) -> Iterator[Testbed]:
    """Run gpu_acc, cpu_acc, cpu_ref and a framework; devices that die are started again."""
    topology = Topology(device=tuple(DeviceEntry(driver=name) for name in DEVICES))
    with Testbed(topology, short_path, zygote=WARM) as bed:
        yield bed


@pytest.fixture
def framework(testbed: Testbed) -> Iterator[Framework]:
    with connect(testbed.framework) as session:
        yield session


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a model of three nodes: x * x, its tanh, and that plus x."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in ("x", "y")]
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["a"], name="square"),
        helper.make_node("Tanh", ["a"], ["b"], name="tanh"),
        helper.make_node("Add", ["b", "x"], ["y"], name="sum"),
    ]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    file = tmp_path / "three.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file)
    return file


X = np.linspace(-2, 2, 64, dtype=np.float32).reshape(1, 64)
PINS = {"name:square": "gpu_acc", "name:tanh": "cpu_acc", "name:sum": "gpu_acc"}


def expected(x: Array = X) -> Array:
    return np.asarray(np.tanh(x * x) + x)


def check(model: Model) -> None:
    np.testing.assert_allclose(model.run({"x": X})["y"], expected(), atol=1e-6)


@pytest.mark.contract("FB-03", "FB-16", "RS-10", "RS-11")
@pytest.mark.parametrize("victim", ["gpu_acc", "cpu_acc"])
def test_a_device_that_dies_loses_no_run_and_is_used_again_when_it_is_back(
    testbed: Testbed, framework: Framework, path: Path, victim: str
) -> None:
    model = framework.load(path, pins=PINS)
    check(model)
    os.kill(testbed.pid(victim), signal.SIGKILL)
    for _ in range(5):
        check(model)

    def is_back() -> bool:
        check(model)
        _, report = model.run_with_report({"x": X})
        return [step.device for step in report.steps] == ["gpu_acc", "cpu_acc", "gpu_acc"]

    wait_until(is_back, f"{victim} has its steps again")
    with RemoteDevice(testbed.endpoint(victim)) as device:
        assert device.usage().prepared_models > 0


@pytest.mark.contract("FB-10", "RS-08", "RS-13")
def test_without_fallback_the_death_of_a_device_is_an_error_and_not_a_hang(
    testbed: Testbed, framework: Framework, path: Path
) -> None:
    model = framework.load(path, pins=PINS, fallback="deny")
    check(model)
    kill_for_good(testbed, "gpu_acc")
    with pytest.raises(HalError) as caught:
        model.run({"x": X})
    assert caught.value.status == ErrorStatus.DEVICE_UNAVAILABLE


@pytest.mark.contract("FB-10")
def test_no_other_device_is_used_than_those_listed(testbed: Testbed, framework: Framework, path: Path) -> None:
    model = framework.load(path, devices=["gpu_acc", "cpu_acc"], pins=PINS)
    check(model)
    kill_for_good(testbed, "gpu_acc")
    with pytest.raises(HalError) as caught:
        model.run({"x": X})
    assert caught.value.status == ErrorStatus.DEVICE_UNAVAILABLE


@pytest.mark.contract("FB-01", "FB-09", "FB-16")
def test_a_whole_model_on_a_device_that_dies_runs_on_the_cpu(
    testbed: Testbed, framework: Framework, path: Path
) -> None:
    model = framework.load(path, pins={"name:*": "gpu_acc"})
    assert model.steps == ("gpu_acc",)
    check(model)
    os.kill(testbed.pid("gpu_acc"), signal.SIGKILL)
    for _ in range(5):
        check(model)


def test_after_a_fallback_the_ledger_shows_the_fallback_device(
    testbed: Testbed, framework: Framework, path: Path
) -> None:
    model = framework.load(path, pins=PINS)
    _, whole = model.run_with_report({"x": X})
    assert not whole.fell_back
    assert [(entry.value, entry.source, entry.destination) for entry in whole.ledger] == [
        ("x", "", "gpu_acc"),
        ("x", "", "gpu_acc"),
        ("a", "gpu_acc", "cpu_acc"),
        ("b", "cpu_acc", "gpu_acc"),
        ("y", "gpu_acc", ""),
    ]
    kill_for_good(testbed, "gpu_acc")
    _, report = model.run_with_report({"x": X})
    assert report.fell_back
    devices = {step.step: step.device for step in report.steps}
    for entry in report.ledger:
        assert entry.source == devices.get(entry.source_step, "")
        assert entry.destination == devices.get(entry.destination_step, "")
    assert sum(entry.copied_bytes for entry in report.ledger) == sum(step.copied_bytes for step in report.steps)


@pytest.mark.slow
def test_under_load_every_run_gets_the_right_answer_over_many_deaths(testbed: Testbed, path: Path) -> None:
    """Four clients run without pause while their devices are killed one after the other."""
    stop, wrong = threading.Event(), list[BaseException]()
    done = [0] * 4

    def load(number: int) -> None:
        try:
            with connect(testbed.framework) as session:
                model = session.load(path, pins=PINS)
                x = X * (number + 1)
                while not stop.is_set():
                    np.testing.assert_allclose(model.run({"x": x})["y"], expected(x), atol=1e-5)
                    done[number] += 1
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=load, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: bool(wrong) or min(done) > 5, "every client runs")
        for death in range(10):
            victim = ("gpu_acc", "cpu_acc")[death % 2]
            kill_and_go_on(testbed, victim, lambda: min(done), lambda: bool(wrong))
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert wrong == []
    for name in DEVICES:
        wait_until(partial(holds_nothing, testbed, name), f"{name} has nothing left")


def kill_and_go_on(testbed: Testbed, victim: str, progress: Callable[[], int], failed: Callable[[], bool]) -> None:
    """Kill a device, and wait until every client gets right answers and the device is started again."""
    before, pid = progress(), testbed.pid(victim)
    os.kill(pid, signal.SIGKILL)
    wait_until(
        lambda: failed() or (progress() > before + 5 and testbed.pid(victim) != pid), "every client gets right answers"
    )


def holds_nothing(testbed: Testbed, name: str) -> bool:
    """Return whether a device runs and holds no client's objects."""
    try:
        with RemoteDevice(testbed.endpoint(name)) as device:
            usage = device.usage()
    except DeadObjectError:
        return False
    return usage.prepared_models == usage.executions == usage.launched == 0
