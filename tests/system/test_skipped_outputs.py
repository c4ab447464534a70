"""Outputs that an ONNX file leaves out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from nnhal_client import Framework
from tests.support.onnx_models import onnx_model


def test_a_split_may_leave_out_an_output(framework: Framework, tmp_path: Path) -> None:
    node = helper.make_node("Split", ["x"], ["a", "", "c"], axis=1, num_outputs=3)
    path = tmp_path / "split.onnx"
    onnx.save(onnx_model([node], {"x": [2, 3]}, ["a", "c"]), path)
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    with framework.load(path, devices=["cpu_acc"], fallback="deny") as model:
        found = model.run({"x": values})
    np.testing.assert_array_equal(found["a"], values[:, :1])
    np.testing.assert_array_equal(found["c"], values[:, 2:])
