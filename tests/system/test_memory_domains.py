"""Device memory, through the client library."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal.arrays import Array
from nnhal.clock import now_ns
from nnhal.errors import HalError
from nnhal.memory import create_blob, open_pool
from nnhal.remote import RemoteDevice
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal.v1 import framework_pb2 as wire
from nnhal_client import Binding, DomainMemory, Framework, MemoryRole, Model, connect
from nnhal_hosting import restarted_process as restarted
from nnhal_tools.up import DEFAULT_TOPOLOGY, Testbed
from tests.support.killed_clients import holding_memories, killed_client
from tests.support.onnx_models import onnx_model
from tests.support.processes import WARM
from tests.support.resources import resources_of
from tests.support.waiting import settled, wait_for_death, wait_until

X = np.linspace(-2, 2, 64, dtype=np.float32).reshape(1, 64)
ZEROS = np.zeros((1, 64), np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write the model ``y = tanh(x + z)``."""
    return save(tmp_path / "sum.onnx", [1, 64])


def save(file: Path, shape: list[int | str]) -> Path:
    nodes = [
        helper.make_node("Add", ["x", "z"], ["s"], name="sum"),
        helper.make_node("Tanh", ["s"], ["y"], name="tanh"),
    ]
    onnx.save(onnx_model(nodes, {"x": shape, "z": shape}, ["y"]), file)
    return file


@pytest.fixture
def devices(testbed: Testbed) -> Iterator[dict[str, RemoteDevice]]:
    """Open sessions with the devices, to observe what they hold."""
    with RemoteDevice(testbed.endpoint("cpu_ref")) as ref, RemoteDevice(testbed.endpoint("cpu_acc")) as acc:
        yield {"cpu_ref": ref, "cpu_acc": acc}


def content(memory: DomainMemory, like: Array = X) -> Array:
    values = np.empty_like(like)
    memory.copy_to(values)
    return values


def refused(status: ErrorStatus, words: str) -> pytest.RaisesExc[HalError]:
    return pytest.raises(HalError, match=words, check=lambda error: error.status == status)


@pytest.mark.contract("MR-11")
def test_values_go_from_the_host_over_two_devices_and_back(framework: Framework, path: Path) -> None:
    memories = []
    for device in ("cpu_ref", "cpu_acc"):
        model = framework.load(path, devices=[device])
        memories.append(framework.allocate([model.input_role("x")]))
    first, second = memories
    assert (first.device, first.host, second.device, second.host) == ("cpu_ref", None, "cpu_acc", None)
    first.copy_from(X)
    second.copy_from(first)
    np.testing.assert_array_equal(content(second), X)
    blob = create_blob(X.nbytes)
    first.copy_from(ZEROS)
    second.copy_to(first)
    first.copy_to(blob)
    np.testing.assert_array_equal(open_pool(blob, writable=False).read(0, X.nbytes).view(np.float32), X[0])


def test_unknown_memory_cannot_be_copied_or_freed(framework: Framework, path: Path) -> None:
    model = framework.load(path, devices=["cpu_ref"])
    memory = framework.allocate([model.input_role("x")])
    binding = model.bind()
    for handle in (memory.handle + 100, -1, 0):
        with refused(ErrorStatus.INVALID_ARGUMENT, f"memory {handle} does not exist"):
            framework.calls.call(framework.stub.FreeMemory, wire.FreeMemoryRequest(memory=handle))
    ends = wire.CopyMemoryRequest(source=wire.MemoryEnd(memory=memory.handle))
    with refused(ErrorStatus.INVALID_ARGUMENT, "without a destination"):
        framework.calls.call(framework.stub.CopyMemory, ends)
    memory.close()
    memory.close()
    with refused(ErrorStatus.INVALID_ARGUMENT, f"memory {memory.handle} does not exist in this session, or was"):
        memory.copy_from(X)
    binding.close()
    with pytest.raises(ValueError, match=r"no output 'x'; there are \['y'\]"):
        model.output_role("x")


def test_memory_of_another_session_is_unknown(testbed: Testbed, framework: Framework, path: Path) -> None:
    memory = framework.allocate([framework.load(path, devices=["cpu_ref"]).input_role("x")])
    with connect(testbed.framework) as other:
        model = other.load(path, devices=["cpu_ref"])
        with refused(ErrorStatus.INVALID_ARGUMENT, f"memory {memory.handle} does not exist in this session"):
            model.bind(memories={"x": memory})


def test_freed_memory_is_released_when_nothing_uses_it_any_more(
    framework: Framework, devices: dict[str, RemoteDevice], path: Path
) -> None:
    device = devices["cpu_ref"]
    before = settled(lambda: device.usage().buffers)  # buffers are released asynchronously
    model = framework.load(path, devices=["cpu_ref"])
    with framework.allocate([model.input_role("x")]) as memory:
        assert device.usage().buffers == before + 1
        memory.copy_from(X)
        binding = model.bind(memories={"x": memory})
    assert device.usage().buffers == before + 1
    binding.inputs["z"][...] = ZEROS
    binding.run()
    np.testing.assert_allclose(binding.outputs["y"], np.tanh(X), atol=1e-6)
    binding.close()
    wait_until(lambda: device.usage().buffers == before, "the buffer is released")


def test_a_client_that_is_killed_leaves_no_memory(
    testbed: Testbed, framework: Framework, devices: dict[str, RemoteDevice], path: Path
) -> None:
    framework.load(path, devices=["cpu_ref"]).run({"x": X, "z": X})
    device, pid = devices["cpu_ref"], testbed.pid("framework")
    settled(lambda: device.usage().buffers)
    before, resources = device.usage(), resources_of(pid)
    with killed_client(holding_memories, testbed.framework, path) as client:
        assert device.usage().buffers == before.buffers + 3
        client.kill()
        wait_until(lambda: device.usage().buffers == before.buffers, "buffers are released")
        wait_until(lambda: device.usage().buffer_bytes == before.buffer_bytes, "their memory is released")
        wait_until(lambda: resources_of(pid).within(resources), "the framework has released everything")


@pytest.mark.slow
def test_memory_of_a_device_that_died_says_so_and_all_else_goes_on(
    short_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the device is back, which is not before the test ends."""
    for delay in ("_FIRST_RESTART_SECONDS", "_LONGEST_AFTER_SERVING_SECONDS"):
        monkeypatch.setattr(restarted, delay, 600.0)
    with Testbed(DEFAULT_TOPOLOGY, short_path, zygote=WARM) as bed, connect(bed.framework) as session:
        model = session.load(path, devices=["cpu_acc", "cpu_ref"], pins={"op:ADD": "cpu_acc", "op:TANH": "cpu_acc"})
        memory = session.allocate([model.input_role("x")])
        assert memory.device == "cpu_acc"
        memory.copy_from(X)
        victim = bed.pid("cpu_acc")
        os.kill(victim, signal.SIGKILL)
        wait_for_death(victim)
        for use in (lambda: content(memory), lambda: memory.copy_from(X)):
            with refused(ErrorStatus.DEVICE_UNAVAILABLE, "device cpu_acc's own, and is gone with the device's process"):
                use()
        memory.close()
        np.testing.assert_allclose(model.run({"x": X, "z": ZEROS})["y"], np.tanh(X), atol=1e-6)


@pytest.mark.slow
@pytest.mark.contract("RS-11")
@pytest.mark.parametrize("fallback", ["allow", "deny"])
def test_memory_of_a_device_that_came_back_is_allocated_again_and_holds_nothing(
    short_path: Path, path: Path, fallback: Literal["allow", "deny"]
) -> None:
    """Its tokens are not those of the dead process, which name other memory now; bindings work when it is written."""
    pins = {"op:ADD": "cpu_acc", "op:TANH": "cpu_acc"}
    with Testbed(DEFAULT_TOPOLOGY, short_path, zygote=WARM) as bed, connect(bed.framework) as session:
        model = session.load(path, devices=["cpu_acc", "cpu_ref"], pins=pins, fallback=fallback)
        x, y = (session.allocate([role]) for role in (model.input_role("x"), model.output_role("y")))
        both, only = model.bind(memories={"x": x, "y": y}), model.bind(memories={"x": x})
        x.copy_from(X)
        for binding in (both, only):
            binding.fill({"z": ZEROS})
            binding.run()
        victim = bed.pid("cpu_acc")
        os.kill(victim, signal.SIGKILL)
        wait_for_death(victim)
        wait_until(lambda: all(device.available for device in session.devices()), "the device is back")
        others = [session.allocate([role]) for role in (model.input_role("x"), model.output_role("y"))]
        for other in others:  # their tokens are counted from 1 again
            other.copy_from(ZEROS)
        for memory in (x, y):
            with refused(ErrorStatus.INVALID_ARGUMENT, "uninitialised"):
                content(memory)
        for binding in (both, only, model.bind(memories={"x": x})):
            with refused(ErrorStatus.GENERAL_FAILURE, "uninitialised"):
                binding.run()
        x.copy_from(X)
        for binding in (both, only):
            binding.run()
        np.testing.assert_allclose(content(y), np.tanh(X), atol=1e-6)
        np.testing.assert_allclose(only.outputs["y"], np.tanh(X), atol=1e-6)
        for other in others:
            np.testing.assert_array_equal(content(other), ZEROS)
        with RemoteDevice(bed.endpoint("cpu_acc")) as device:
            usage = device.usage()
        assert (usage.buffers, usage.executions_ended) == (4, 2)


@pytest.mark.contract("MR-05")
@pytest.mark.parametrize("device", ["cpu_ref", "cpu_acc"])
def test_values_stay_on_the_device_from_run_to_run(
    framework: Framework, devices: dict[str, RemoteDevice], path: Path, device: str
) -> None:
    model = framework.load(path, devices=[device])
    even = framework.allocate([model.input_role("x"), model.output_role("y")])
    odd = framework.allocate([model.input_role("x"), model.output_role("y")])
    assert (even.device, odd.device) == (device, device)
    there = model.bind(memories={"x": even, "y": odd})
    back = model.bind(memories={"x": odd, "y": even})
    assert (set(there.inputs), set(there.outputs)) == ({"z"}, set())
    even.copy_from(X)
    copied = devices[device].usage().buffer_copied_bytes
    expected = X
    for binding in (there, back, there):
        binding.fill({"z": X})
        assert binding.run().direct
        expected = np.tanh(expected + X)
    assert devices[device].usage().buffer_copied_bytes == copied
    np.testing.assert_allclose(content(odd), expected, atol=1e-6)


def test_runs_of_either_way_read_what_the_last_run_has_written(framework: Framework, path: Path) -> None:
    model = framework.load(path, devices=["cpu_ref"])
    even, odd = (framework.allocate([model.input_role("x"), model.output_role("y")]) for _ in range(2))
    turns = [model.bind(memories={"x": x, "y": y}) for x, y in ((even, odd), (odd, even))]
    for memory in (even, odd):  # the device knows that they hold nothing yet
        with refused(ErrorStatus.INVALID_ARGUMENT, "uninitialised"):
            content(memory)
    even.copy_from(X)
    expected = X
    for number in range(12):
        is_late = number % 7 in (2, 3, 5)  # a run with a deadline goes through the framework
        turns[number % 2].fill({"z": X})
        report = turns[number % 2].run(now_ns() + 10**12 if is_late else NO_DEADLINE)
        assert report.direct is not is_late
        expected = np.tanh(expected + X)
        np.testing.assert_allclose(content((odd, even)[number % 2]), expected, atol=1e-6)
    third = framework.allocate([model.input_role("x")])
    third.copy_from(even)
    np.testing.assert_allclose(content(third), expected, atol=1e-6)


def test_memory_of_one_device_of_a_chain_is_used_directly(framework: Framework, path: Path) -> None:
    model = framework.load(path, pins={"op:ADD": "cpu_acc", "op:TANH": "cpu_ref"})
    x, y = framework.allocate([model.input_role("x")]), framework.allocate([model.output_role("y")])
    assert (x.device, y.device) == ("cpu_acc", "cpu_ref")
    binding = model.bind(memories={"x": x, "y": y})
    binding.fill({"z": ZEROS})
    with refused(ErrorStatus.GENERAL_FAILURE, "uninitialised"):
        binding.run()
    for value in (X, ZEROS):
        x.copy_from(value)
        assert binding.run().direct
        np.testing.assert_allclose(content(y), np.tanh(value), atol=1e-6)


def test_host_memory_is_used_in_the_same_way(framework: Framework, path: Path) -> None:
    pins = {"op:ADD": "cpu_acc", "op:TANH": "cpu_ref"}
    model = framework.load(path, pins=pins)
    memory = framework.allocate([model.input_role("x"), model.output_role("y")])
    assert memory.device == ""
    written = model.bind(memories={"y": memory})
    with refused(ErrorStatus.INVALID_ARGUMENT, "uninitialised"):
        content(memory)
    written.fill({"x": X, "z": ZEROS})
    written.run()
    np.testing.assert_allclose(content(memory), np.tanh(X), atol=1e-6)
    read = model.bind(memories={"x": memory})
    read.fill({"z": X})
    read.run()
    np.testing.assert_allclose(read.outputs["y"], np.tanh(np.tanh(X) + X), atol=1e-6)


@pytest.mark.contract("MR-10", "MR-15")
def test_an_output_of_unknown_dimensions_becomes_an_input_of_its_actual_ones(
    framework: Framework, tmp_path: Path
) -> None:
    model = framework.load(save(tmp_path / "open.onnx", ["n", 64]), devices=["cpu_ref"])
    memory = framework.allocate([model.output_role("y"), model.input_role("x")])
    assert memory.device == "cpu_ref"
    twice = np.concatenate([X, X])
    with model_binding(model, {"y": memory}, {"x": (2, 64), "z": (2, 64)}) as binding:
        binding.fill({"x": twice, "z": twice})
        binding.run()
    np.testing.assert_allclose(content(memory, twice), np.tanh(2 * twice), atol=1e-6)
    with model_binding(model, {"x": memory}, {"x": (1, 64), "z": (1, 64)}) as binding:
        binding.fill({"z": X})
        with refused(ErrorStatus.INVALID_ARGUMENT, r"\[2, 64\]"):
            binding.run()
    with model_binding(model, {"x": memory}, {"x": (2, 64), "z": (2, 64)}) as binding:
        binding.fill({"z": twice})
        binding.run()
        np.testing.assert_allclose(binding.outputs["y"], np.tanh(np.tanh(2 * twice) + twice), atol=1e-6)


@pytest.mark.contract("MR-15")
def test_an_input_has_the_dimensions_of_what_its_memory_holds_at_each_run(framework: Framework, tmp_path: Path) -> None:
    model = framework.load(save(tmp_path / "open.onnx", ["n", 64]), devices=["cpu_ref"])
    memory = framework.allocate([model.output_role("y"), model.input_role("x")])
    binding = model.bind(memories={"x": memory}, dimensions={"z": (1, 64), "y": (3, 64)})
    binding.fill({"z": X})

    def check(held: Array) -> None:
        binding.run()
        np.testing.assert_allclose(binding.outputs["y"][: len(held)], np.tanh(held + X), atol=1e-6)

    for count in (2, 3, 1):
        memory.copy_from(np.repeat(X, count, axis=0))
        check(np.repeat(X, count, axis=0))
    twice = np.repeat(X, 2, axis=0)
    with model_binding(model, {"y": memory}, {"x": (2, 64), "z": (2, 64)}) as filling:
        filling.fill({"x": twice, "z": twice})
        filling.run()
    check(np.tanh(2 * twice))


def test_shared_memory_is_copied_with_the_dimensions_that_are_given(framework: Framework, tmp_path: Path) -> None:
    model = framework.load(save(tmp_path / "open.onnx", ["n", 64]), devices=["cpu_ref"])
    memory, other = (framework.allocate([model.input_role(name)]) for name in "xz")
    blob = create_blob(2 * X.nbytes)
    with refused(ErrorStatus.INVALID_ARGUMENT, "all known"):
        memory.copy_from(blob)
    memory.copy_from(blob, (2, 64))
    np.testing.assert_array_equal(content(memory, np.ones((2, 64), np.float32)), np.zeros((2, 64), np.float32))
    with refused(ErrorStatus.INVALID_ARGUMENT, r"dimensions \[2, 64\], which only"):
        other.copy_from(memory, (2, 64))


@contextmanager
def model_binding(
    model: Model, memories: dict[str, DomainMemory], dimensions: dict[str, tuple[int, ...]]
) -> Iterator[Binding]:
    binding = model.bind(memories=memories, dimensions={**dimensions, "y": dimensions["z"]})
    yield binding
    binding.close()


def test_values_of_an_extension_lie_on_the_host(framework: Framework, tmp_path: Path) -> None:
    nodes = [helper.make_node("Sinh", ["x"], ["y"], name="sinh")]
    file = tmp_path / "double.onnx"
    onnx.save(onnx_model(nodes, {"x": [1, 64]}, ["y"], element_type=np.float64), file)
    model = framework.load(file)
    memories = {name: framework.allocate([role]) for name, role in roles_of(model).items()}
    assert [memory.device for memory in memories.values()] == ["", ""]
    x = X.astype(np.float64)
    memories["x"].copy_from(x)
    model.bind(memories=memories).run()
    np.testing.assert_allclose(content(memories["y"], x), np.sinh(x))


def roles_of(model: Model) -> dict[str, MemoryRole]:
    return {"x": model.input_role("x"), "y": model.output_role("y")}


def test_memory_can_be_copied_while_runs_write_it(framework: Framework, path: Path) -> None:
    model = framework.load(path, devices=["cpu_ref"])
    memory = framework.allocate([model.output_role("y")])
    binding = model.bind(memories={"y": memory})
    binding.fill({"x": X, "z": ZEROS})
    binding.run()

    def copy() -> Array:
        for _ in range(50):
            values = content(memory)
        return values

    with ThreadPoolExecutor(2) as pool:
        copies = [pool.submit(copy) for _ in range(2)]
        for _ in range(50):
            binding.run()
        for done in copies:
            np.testing.assert_allclose(done.result(), np.tanh(X), atol=1e-6)
