"""Outputs that an ONNX file leaves out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from nnhal_client import Framework
from tests.support.onnx_models import onnx_model

STATISTICS = ("s", "b", "m", "v")


def test_a_split_may_leave_out_an_output(framework: Framework, tmp_path: Path) -> None:
    node = helper.make_node("Split", ["x"], ["a", "", "c"], axis=1, num_outputs=3)
    path = tmp_path / "split.onnx"
    onnx.save(onnx_model([node], {"x": [2, 3]}, ["a", "c"]), path)
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    with framework.load(path, devices=["cpu_acc"], fallback="deny") as model:
        found = model.run({"x": values})
    np.testing.assert_array_equal(found["a"], values[:, :1])
    np.testing.assert_array_equal(found["c"], values[:, 2:])


def test_a_batch_normalization_may_leave_out_a_statistic(framework: Framework, tmp_path: Path) -> None:
    node = helper.make_node("BatchNormalization", ["x", *STATISTICS], ["y", "", "running"], training_mode=1)
    shapes = {"x": [2, 3], **{name: [3] for name in STATISTICS}, "y": [2, 3], "running": [3]}
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    path = tmp_path / "batch.onnx"
    graph = helper.make_graph([node], "batch", values[:5], values[5:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=10), path)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    ones = np.ones(3, np.float32)
    with framework.load(path) as model:
        assert model.steps == ("cpu_ref",)  # ONNX Runtime would end its process
        found = model.run({"x": x, "s": ones, "b": ones, "m": ones, "v": ones})
    np.testing.assert_allclose(found["y"], 1 + (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5), rtol=1e-5)
    np.testing.assert_allclose(found["running"], 0.9 + 0.1 * x.var(0), rtol=1e-5)
