"""The framework and its devices, through the client library."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus
from nnhal_client import Framework, Model, connect
from nnhal_tools.up import Testbed
from tests.support.onnx_models import onnx_model
from tests.support.waiting import stop, wait_until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a model of six alternating Add and Tanh nodes over 1 x 16 floats."""
    nodes = []
    for number in range(6):
        source = "x" if number == 0 else f"t{number - 1}"
        inputs = [source, "x"] if number % 2 == 0 else [source]
        kind = "Add" if number % 2 == 0 else "Tanh"
        nodes.append(helper.make_node(kind, inputs, [f"t{number}"], name=f"{kind.lower()}{number}"))
    file = tmp_path / "zigzag.onnx"
    onnx.save(onnx_model(nodes, {"x": [1, 16]}, ["t5"]), file)
    return file


def expected(x: Array) -> Array:
    value = x
    for _ in range(3):
        value = np.tanh(value + x)
    return value


def zigzag(framework: Framework, path: Path) -> Model:
    """Load the model with its Tanh nodes on the other device."""
    return framework.load(path, pins={"op:TANH": "cpu_ref", "op:ADD": "cpu_acc"})


def test_values_cross_between_devices_and_back(framework: Framework, path: Path) -> None:
    model = zigzag(framework, path)
    assert model.steps == ("cpu_acc", "cpu_ref") * 3
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 16)
    np.testing.assert_allclose(model.run({"x": x})["t5"], expected(x), atol=1e-6)


def test_a_model_is_loaded_by_its_path(framework: Framework, path: Path) -> None:
    content = path.read_bytes()
    wrong: list[tuple[Any, str]] = [
        (content, f"got {len(content)} bytes, expected the path of a model file"),
        (bytearray(content), f"got {len(content)} bytes, expected the path of a model file"),
        (onnx.load(path), "got an object of ModelProto, expected the path of a model file"),
        (content.decode("latin1"), f"a NUL among {len(content)} characters, expected the path of a model file"),
    ]
    for given, told in wrong:
        with pytest.raises((TypeError, ValueError), match=told):
            framework.load(given)
    assert framework.load(str(path)).steps


def test_values_between_steps_share_memory(framework: Framework, path: Path) -> None:
    # Five values cross between devices, at most two of which are alive at the same time.
    assert zigzag(framework, path).arena_bytes == 2 * 64


def test_the_next_run_sees_inputs_written_in_place(framework: Framework, path: Path) -> None:
    binding = zigzag(framework, path).bind(measure_timing=True)
    for fill in (0.5, -0.25):
        binding.inputs["x"][...] = fill
        report = binding.run()
        np.testing.assert_allclose(binding.outputs["t5"], expected(np.full((1, 16), fill, np.float32)), atol=1e-6)
        assert sum(step.copied_bytes for step in report.steps) == 0
        assert all(step.time_on_device_ns >= 0 for step in report.steps)


def test_steps_that_run_one_another_give_the_same_every_time(framework: Framework, path: Path) -> None:
    binding = zigzag(framework, path).bind()
    random = np.random.default_rng(0)
    for _ in range(200):
        x = random.standard_normal((1, 16), np.float32)
        binding.inputs["x"][...] = x
        binding.run()
        np.testing.assert_allclose(binding.outputs["t5"], expected(x), atol=1e-6)


def test_a_deadline_missed_in_a_chain_of_steps_affects_only_its_run(framework: Framework, path: Path) -> None:
    binding = zigzag(framework, path).bind()
    binding.inputs["x"][...] = 0.5
    with pytest.raises(HalError) as caught:
        binding.run(deadline_ns=1)
    assert caught.value.status == ErrorStatus.MISSED_DEADLINE_PERSISTENT
    binding.run()
    np.testing.assert_allclose(binding.outputs["t5"], expected(np.full((1, 16), 0.5, np.float32)), atol=1e-6)


@pytest.mark.contract("QS-05")
def test_a_run_whose_deadline_has_passed_asks_no_device(framework: Framework, path: Path, testbed: Testbed) -> None:
    binding = zigzag(framework, path).bind()
    pid = testbed.pid("cpu_ref")
    stop(pid)
    try:
        with pytest.raises(HalError, match="had passed before the run began") as caught:
            binding.run(deadline_ns=1)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert caught.value.status == ErrorStatus.MISSED_DEADLINE_PERSISTENT
    binding.run()


def test_an_operation_that_no_device_takes_is_named_with_every_refusal(framework: Framework, path: Path) -> None:
    with pytest.raises(HalError, match=r"device 'npu'") as caught:
        framework.load(path, pins={"name:tanh3": "npu"})
    assert caught.value.status == ErrorStatus.INVALID_ARGUMENT


def test_a_file_that_is_not_a_model_is_refused(framework: Framework, tmp_path: Path) -> None:
    file = tmp_path / "text.onnx"
    file.write_text("not a model at all, but long enough to look at")
    with pytest.raises(HalError, match="46 bytes that are neither an ONNX nor a TFLite model"):
        framework.load(file)


def test_an_unloaded_model_cannot_be_run(framework: Framework, path: Path) -> None:
    model = zigzag(framework, path)
    binding = model.bind()
    binding.run()
    model.unload()
    with pytest.raises(HalError, match="unloaded"):
        binding.run()


def test_a_session_that_ends_leaves_nothing_on_the_devices(testbed: Testbed, path: Path) -> None:
    with RemoteDevice(testbed.endpoint("cpu_ref")) as device:
        before = device.usage()
        with connect(testbed.framework) as framework:
            model = zigzag(framework, path)
            model.bind().run()
            during = device.usage()
            assert during.prepared_models == before.prepared_models + 3
            assert during.executions == before.executions + 3
        wait_until(
            lambda: (
                (usage := device.usage()).prepared_models == before.prepared_models
                and usage.mappings == before.mappings
                and usage.executions == before.executions
            ),
            "cpu_ref has released the session's objects",
        )
