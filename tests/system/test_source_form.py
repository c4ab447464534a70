"""ONNX models on a device that runs steps as the file has them: one step, whatever the file holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from nnhal.arrays import Array
from nnhal_client import Framework
from nnhal_tools.up import DeviceEntry
from tests.support.onnx_models import onnx_model, random
from tests.support.testbeds import framework_over

AS_IT_IS = ("as the file has it",)
HIDDEN = 8
CONSTANTS = {
    "w": random(1, 4 * HIDDEN, 4, seed=1),
    "r": random(1, 4 * HIDDEN, HIDDEN, seed=2),
    "one": np.array([1], np.int64),
    "big": np.array([1 << 40], np.int64),
    "slope": random(HIDDEN, seed=3),
    "seen": np.array([1], np.int64),
}


@pytest.fixture(scope="module")
def framework() -> Iterator[Framework]:
    """A framework over the CPU's devices."""
    with framework_over(DeviceEntry(driver="cpu_acc"), DeviceEntry(driver="cpu_ref")) as session:
        yield session


def branch(name: str, operator: str) -> onnx.GraphProto:
    """A branch of If that applies an operator to a tensor of the graph around it."""
    value = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    return helper.make_graph([helper.make_node(operator, ["s"], [name])], name, [], [value])


def motley() -> onnx.ModelProto:
    """A recurrent layer, slices, slopes and a branch, over any number of steps and rows."""
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r"], ["h"], hidden_size=HIDDEN),
        helper.make_node("Squeeze", ["h", "seen"], ["q"]),
        helper.make_node("Slice", ["q", "one", "big"], ["s"]),
        helper.make_node("ReduceMax", ["s"], ["most"], keepdims=0),
        helper.make_node("Greater", ["most", "threshold"], ["c"]),
        helper.make_node("If", ["c"], ["t"], then_branch=branch("then", "Tanh"), else_branch=branch("else", "Sin")),
        helper.make_node("PRelu", ["t", "slope"], ["y"]),
    ]
    return onnx_model(nodes, {"x": ["steps", "rows", 4], "threshold": []}, ["y"], CONSTANTS)


def by_runtime(model: onnx.ModelProto, inputs: dict[str, Array]) -> Array:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, inputs)
    return np.asarray(result)


@pytest.mark.slow
def test_open_dimensions_recurrence_and_branches_are_one_step(framework: Framework, tmp_path: Path) -> None:
    path, model = tmp_path / "motley.onnx", motley()
    path.write_bytes(model.SerializeToString())
    with framework.load(path) as loaded:
        assert loaded.steps == ("cpu_acc",)
        assert [step.optimizations for step in loaded.explain().steps] == [AS_IT_IS]
        for steps, rows, threshold in ((3, 2, -9.0), (5, 1, 9.0), (3, 2, 9.0)):
            inputs = {"x": random(steps, rows, 4), "threshold": np.array(threshold, np.float32)}
            wanted = by_runtime(model, inputs)
            given = {**inputs, "threshold": inputs["threshold"].reshape(1)}
            np.testing.assert_allclose(loaded.run(given)["y"], wanted, 1e-5, 1e-6)
            with loaded.bind(dimensions={"x": (steps, rows, 4)}) as binding:
                for name, values in given.items():
                    binding.inputs[name][...] = values
                binding.run()
                np.testing.assert_allclose(binding.outputs["y"], wanted, 1e-5, 1e-6)


def test_steps_on_either_side_of_another_device_are_as_the_file_has_them(framework: Framework, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("LeakyRelu", ["x"], ["a"], name="before"),
        helper.make_node("Tanh", ["a"], ["b"], name="between"),
        helper.make_node("LeakyRelu", ["b"], ["y"], name="after"),
    ]
    path, model = tmp_path / "three.onnx", onnx_model(nodes, {"x": [2, 3]}, ["y"])
    path.write_bytes(model.SerializeToString())
    pins = {"name:before": "cpu_acc", "name:between": "cpu_ref", "name:after": "cpu_acc"}
    with framework.load(path, pins=pins) as loaded:
        assert loaded.steps == ("cpu_acc", "cpu_ref", "cpu_acc")
        assert [step.optimizations for step in loaded.explain().steps] == [AS_IT_IS, (), AS_IT_IS]
        x = random(2, 3)
        np.testing.assert_allclose(loaded.run({"x": x})["y"], by_runtime(model, {"x": x}), 1e-5, 1e-6)
