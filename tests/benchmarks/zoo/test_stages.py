"""The stages of a load, measured one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import helper

from benchmarks.zoo.packages import ModelFile
from benchmarks.zoo.stages import Stages, load
from tests.support.onnx_models import onnx_model


def test_each_stage_of_a_load_takes_some_time(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    model = onnx_model(nodes, {"x": [1, 8]}, ["y"], {"w": np.ones((8, 8), np.float32)})
    path.write_bytes(model.SerializeToString())
    stages = Stages()
    load(ModelFile("model.onnx", path), stages)
    assert {"the runtime alone", "framework: import", "cpu_acc: support", "cpu_acc, preparing: the session"} <= {
        *stages.times
    }
    assert min(stages.times.values()) >= 0
