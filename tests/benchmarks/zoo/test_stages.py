"""The stages of a load, measured one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from benchmarks.zoo.packages import ModelFile
from benchmarks.zoo.stages import Stages, load
from tests.support.onnx_models import onnx_model


@pytest.mark.parametrize(
    ("in_operations", "stages_of_it"),
    [
        (True, {"framework: import", "cpu_acc: support"}),
        (False, {"framework: the file as it declares itself", "framework, meanwhile: its check"}),
    ],
    ids=["in operations", "as it is"],
)
def test_each_stage_of_a_load_takes_some_time(tmp_path: Path, in_operations: bool, stages_of_it: set[str]) -> None:
    path = tmp_path / "model.onnx"
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    model = onnx_model(nodes, {"x": [1, 8]}, ["y"], {"w": np.ones((8, 8), np.float32)})
    path.write_bytes(model.SerializeToString())
    stages = Stages()
    load(ModelFile("model.onnx", path), stages, in_operations)
    assert {"the runtime alone", "cpu_acc, preparing: the session"} | stages_of_it <= stages.times.keys()
    assert min(stages.times.values()) >= 0
