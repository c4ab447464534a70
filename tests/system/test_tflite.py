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
from tests.support.drawn_values import integers
from tests.support.signatures import two_signatures
from tests.support.tflite_files import Spec, TfliteFile, booleans, floats, int8, int32
from tests.support.tflite_operators import by_litert


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
    assert model.steps == ("cpu_acc",)
    for truth, addend in ((True, 1), (False, 2)):
        outputs = model.run({"x": given, "wanted": np.array([truth], np.uint8)})
        np.testing.assert_allclose(outputs["y"], 2 * given + addend, atol=1e-6)


def test_what_the_hal_has_no_operation_for_is_run_by_litert(framework: Framework, tmp_path: Path) -> None:
    file = TfliteFile()
    x = file.input("x", floats(2, 3))
    (doubled,) = file.operator("ADD", [x, x], {"doubled": floats(2, 3)}, ("AddOptions", {}))
    (summed,) = file.operator("CUMSUM", [doubled, file.constant(np.array(1, np.int32))], {"summed": floats(2, 3)})
    (rounded,) = file.operator("ROUND", [summed], {"rounded": floats(2, 3)})
    (where,) = file.operator("WHERE", [rounded], {"where": Spec((1, 2), np.int64, signature=(-1, 2))})
    path = tmp_path / "extended.tflite"
    path.write_bytes(file.build(rounded, where))
    model = framework.load(path)
    assert model.placements[-1].operation == "nnhal.tflite"
    assert model.placements[-1].device == "cpu_ref"
    assert model.placements[-1].nodes == ("CUMSUM_1:summed", "ROUND_2:rounded", "WHERE_3:where")
    for scale in (1, 3):  # more elements the second time
        given = np.array([[0.1, 0.1, 0.1], [0.6, -0.6, 0.5]], np.float32) * np.float32(scale)
        outputs = model.run({"x": given})
        expected = np.round(np.cumsum(2 * given, 1, dtype=np.float32))
        np.testing.assert_array_equal(outputs["rounded"], expected)
        np.testing.assert_array_equal(outputs["where"], np.argwhere(expected))


def test_strings_and_wide_types_pass_through(framework: Framework, tmp_path: Path) -> None:
    file = TfliteFile()
    words, i, d = (
        file.input("words", Spec((3,), code=5)),
        file.input("i", int32(2)),
        file.input("d", Spec((2,), np.float64)),
    )
    (chosen,) = file.operator("GATHER", [words, i], {"chosen": Spec((2,), code=5)}, ("GatherOptions", {}))
    (f,) = file.operator("CAST", [d], {"f": floats(2)}, ("CastOptions", {}))
    path = tmp_path / "strings.tflite"
    path.write_bytes(file.build(chosen, f))
    model = framework.load(path)
    given = {"words": np.array(["a", "", "ccc"], object), "i": np.array([2, 0], np.int32), "d": np.array([1.5, 2.5])}
    outputs = model.run(given)
    assert outputs["chosen"].tolist() == ["ccc", "a"]
    np.testing.assert_array_equal(outputs["f"], [1.5, 2.5])


def test_a_signature_is_chosen_by_name(framework: Framework, tmp_path: Path) -> None:
    path = tmp_path / "signatures.tflite"
    path.write_bytes(two_signatures())
    given = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    model = framework.load(path, signature="magnitude")
    assert model.signatures == ("magnitude", "serving_default")
    np.testing.assert_array_equal(model.run({"values": given})["absolute"], np.abs(given))
    outputs = framework.load(path, signature="serving_default").run({"a": given, "b": given})
    np.testing.assert_array_equal(outputs["sum"], 2 * given)
    with pytest.raises(HalError, match="no signature 'other', it has 'magnitude', 'serving_default'"):
        framework.load(path, signature="other")


def test_operators_that_nobody_has_are_named(framework: Framework, tmp_path: Path) -> None:
    file = TfliteFile()
    x = file.input("x", floats(2))
    (y,) = file.operator("FlexErf", [x], {"y": floats(2)})
    path = tmp_path / "custom.tflite"
    path.write_bytes(file.build(y))
    expected = r"nothing here runs CUSTOM FlexErf \(node 'CUSTOM FlexErf_0:y'\): a custom operator that LiteRT has not"
    with pytest.raises(HalError, match=expected):
        framework.load(path)


def test_a_broken_file_is_refused_with_its_name(framework: Framework, path: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(path.read_bytes()[:200])
    with pytest.raises(HalError, match="truncated or corrupt") as caught:
        framework.load(broken)
    assert caught.value.status == ErrorStatus.INVALID_ARGUMENT
