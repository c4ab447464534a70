"""TFLite models in the framework, through the client library and the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.types import ErrorStatus
from nnhal_client import Framework
from tests.support.command import nnhal
from tests.support.tflite_files import Spec, TfliteFile, booleans, floats, int8
from tests.support.tflite_operators import by_litert, integers


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a model that classifies int8 images of 1 x 8 x 8 x 2: a convolution, an average and a softmax."""
    file = TfliteFile()
    x = file.input("image", int8(1, 8, 8, 2))
    scales = [0.01, 0.02, 0.03, 0.04]
    kernel = file.constant(integers(4, 3, 3, 2), int8(4, 3, 3, 2, scale=scales))
    bias = file.constant(integers(4), Spec([4], np.int32, [0.05 * scale for scale in scales]))
    window = {"Padding": 0, "StrideW": 1, "StrideH": 1, "FusedActivationFunction": 1}
    (a,) = file.operator("CONV_2D", [x, kernel, bias], {"conv": int8(1, 8, 8, 4, scale=0.1)}, ("Conv2DOptions", window))
    pool = {"Padding": 1, "StrideW": 8, "StrideH": 8, "FilterWidth": 8, "FilterHeight": 8}
    (b,) = file.operator("AVERAGE_POOL_2D", [a], {"pool": int8(1, 1, 1, 4, scale=0.1)}, ("Pool2DOptions", pool))
    (c,) = file.operator("SQUEEZE", [b], {"rows": int8(1, 4, scale=0.1)}, ("SqueezeOptions", {"SqueezeDims": [1, 2]}))
    probabilities = int8(1, 4, scale=1 / 256, zero_point=-128)
    (d,) = file.operator("SOFTMAX", [c], {"call:0": probabilities}, ("SoftmaxOptions", {"Beta": 1.0}))
    found = tmp_path / "model.tflite"
    found.write_bytes(file.build(d))
    return found


IMAGE = integers(1, 8, 8, 2, seed=4).astype(np.int8)


def test_outputs_equal_those_of_litert(framework: Framework, path: Path) -> None:
    model = framework.load(path, pins={"op:SOFTMAX": "cpu_ref", "op:CONV_2D": "cpu_ref"})
    (expected,) = by_litert(path.read_bytes(), {"image": IMAGE})
    outputs = model.run({"image": IMAGE})
    np.testing.assert_allclose(outputs["call:0"].astype(int), expected.astype(int), rtol=0, atol=1)
    assert {placement.nodes for placement in model.placements} == {
        ("CONV_2D_0:conv",),
        ("AVERAGE_POOL_2D_1:pool",),
        ("SQUEEZE_2:rows",),
        ("SOFTMAX_3:call:0",),
    }
    (image,) = model.inputs
    assert (image.name, image.zero_point) == ("image", 3)


def test_nodes_are_pinned_by_name(framework: Framework, path: Path) -> None:
    model = framework.load(path, pins={"name:CONV_2D_0:*": "cpu_ref", "name:*": "cpu_acc"})
    assert {placement.device for placement in model.placements} == {"cpu_acc"}
    model = framework.load(path, pins={"name:*": "cpu_acc", "name:CONV_2D_0:*": "cpu_ref"})
    assert model.steps == ("cpu_ref", "cpu_acc")


def test_the_command_runs_a_tflite_file(path: Path, tmp_path: Path) -> None:
    stored = tmp_path / "image.npy"
    np.save(stored, IMAGE)
    done = nnhal("run", str(path), "--input", str(stored), "--json")
    assert done.returncode == 0, done.stderr
    (expected,) = by_litert(path.read_bytes(), {"image": IMAGE})
    found = np.array(json.loads(done.stdout)["outputs"]["call:0"])
    np.testing.assert_allclose(found, expected.astype(int), rtol=0, atol=1)


def test_a_branch_is_chosen_at_run_time(framework: Framework, tmp_path: Path) -> None:
    file = TfliteFile()
    branches = []
    for addend in (1, 2):
        x = file.input("x", floats(1, 40))
        constant = file.constant(np.full(40, addend, np.float32))
        branches.append(file.subgraph(*file.operator("ADD", [x, constant], {"y": floats(1, 40)}, ("AddOptions", {}))))
    x, wanted = file.input("x", floats(1, 40)), file.input("wanted", booleans())
    (doubled,) = file.operator("ADD", [x, x], {"doubled": floats(1, 40)}, ("AddOptions", {}))
    options = ("IfOptions", {"ThenSubgraphIndex": branches[0], "ElseSubgraphIndex": branches[1]})
    path = tmp_path / "branches.tflite"
    path.write_bytes(file.build(*file.operator("IF", [wanted, doubled], {"y": floats(1, 40)}, options)))
    model, given = framework.load(path, partitioner="nnapi"), np.linspace(0, 1, 40, dtype=np.float32).reshape(1, 40)
    assert model.steps == ("cpu_acc", "cpu_acc", "cpu_acc")  # the step before the IF, and one for each branch
    for truth, addend in ((True, 1), (False, 2)):
        outputs, report = model.run_with_report({"x": given, "wanted": np.array([truth], np.uint8)})
        np.testing.assert_allclose(outputs["y"], 2 * given + addend, atol=1e-6)
        assert [step.step for step in report.steps] == [0, addend]


def test_a_broken_file_is_refused_with_its_name(framework: Framework, path: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(path.read_bytes()[:200])
    with pytest.raises(HalError, match="truncated or corrupt") as caught:
        framework.load(broken)
    assert caught.value.status == ErrorStatus.INVALID_ARGUMENT
