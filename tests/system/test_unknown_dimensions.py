"""Models with unknown dimensions, through a framework process."""

from __future__ import annotations

from math import erf
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.helper import make_node

from nnhal.errors import HalError
from nnhal_client import Framework, OutputTooSmallError
from tests.support.onnx_models import by_onnxruntime, joining, onnx_model, random
from tests.support.shaped_models import untyped


def saved(model: onnx.ModelProto, directory: Path) -> Path:
    path = directory / "model.onnx"
    onnx.save(model, path)
    return path


def test_an_output_gets_as_much_memory_as_it_needs(framework: Framework, tmp_path: Path) -> None:
    model = onnx_model([helper.make_node("NonZero", ["x"], ["y"])], {"x": [5000]}, ["y"])
    loaded = framework.load(saved(model, tmp_path))
    for x in (np.zeros(5000), np.ones(5000), np.arange(5000) % 2):
        (found,) = loaded.run({"x": x.astype(np.float32)}).values()
        np.testing.assert_array_equal(found, np.stack(np.nonzero(x)))
        assert found.dtype == np.int64


@pytest.mark.parametrize("fallback", ["allow", "deny"])
def test_a_binding_whose_outputs_have_dimensions_after_a_run_only_runs_directly(
    framework: Framework, tmp_path: Path, fallback: Literal["allow", "deny"]
) -> None:
    path = saved(onnx_model([helper.make_node("NonZero", ["x"], ["y"])], {"x": [1000]}, ["y"]), tmp_path)
    with framework.load(path, fallback=fallback) as loaded, loaded.bind(dimensions={"y": (1, 500)}) as binding:
        for count in (3, 3, 500, 0, 3):
            binding.inputs["x"][...] = np.arange(1000) < count
            report = binding.run()
            assert report.direct
            assert report.dimensions == {"y": (1, count)}
            np.testing.assert_array_equal(binding.outputs["y"], [np.arange(count)])
            assert not binding.run(deadline_ns=1 << 60).direct
            np.testing.assert_array_equal(binding.outputs["y"], [np.arange(count)])
        room = binding.room("y") // 8
        binding.inputs["x"][...] = np.arange(1000) < room + 1
        with pytest.raises(OutputTooSmallError, match=rf"output 'y' of dimensions \[1, {room + 1}\] has") as caught:
            binding.run()
        assert caught.value.dimensions == {"y": (1, room + 1)}
        binding.inputs["x"][...] = np.arange(1000) < 7
        assert binding.run().direct
        np.testing.assert_array_equal(binding.outputs["y"], [np.arange(7)])


def test_outputs_with_known_and_unknown_dimensions_are_told_apart(framework: Framework, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Abs", ["x"], ["same"]),
        helper.make_node("NonZero", ["x"], ["found"]),
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Compress", ["x", "some"], ["few"]),
    ]
    model = onnx_model(
        nodes, {"x": ["rows", 3], "some": [4]}, ["found", "sum", "few", "same"], element_types={"some": np.bool_}
    )
    with framework.load(saved(model, tmp_path)) as loaded, loaded.bind(dimensions={"x": (2, 3)}) as binding:
        x = np.array([[1, 0, 2], [0, 0, 3]], np.float32)
        binding.inputs["x"][...] = x
        for some in np.array([[1, 0, 0, 1], [1, 1, 1, 0], [0, 0, 0, 0]] * 2, bool):
            binding.inputs["some"][...] = some
            assert binding.run().direct == (len(loaded.steps) == 1)
            np.testing.assert_array_equal(binding.outputs["found"], np.stack(np.nonzero(x)))
            np.testing.assert_allclose(binding.outputs["sum"], x.sum())
            np.testing.assert_array_equal(binding.outputs["few"], np.compress(some, x))
            np.testing.assert_array_equal(binding.outputs["same"], x)


def test_inputs_of_unknown_dimensions_accept_any(framework: Framework, tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Erf", ["r"], ["y"])]
    loaded = framework.load(saved(onnx_model(nodes, {"x": ["n", 3]}, ["y"]), tmp_path))
    for batch in (1, 4, 2000):
        assert loaded.run({"x": random(batch, 3)})["y"].shape == (batch, 3)


def test_a_binding_of_inputs_with_unknown_dimensions_needs_them(framework: Framework, tmp_path: Path) -> None:
    loaded = framework.load(saved(onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": ["n"]}, ["y"]), tmp_path))
    with pytest.raises(ValueError, match="expected all of them in dimensions="):
        loaded.bind()
    binding = loaded.bind(dimensions={"x": (2,)})
    binding.inputs["x"][...] = [-1, 2]
    report = binding.run()
    assert report.dimensions == {"y": (2,)}
    np.testing.assert_array_equal(binding.outputs["y"], [0, 2])


def test_values_of_the_extensions_types_pass_between_devices(framework: Framework, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a"], name="add"),
        helper.make_node("Mul", ["a", "x"], ["m"], name="mul"),
        helper.make_node("Sub", ["m", "a"], ["y"], name="sub"),
    ]
    model = onnx_model(nodes, {"x": [3]}, ["y"], element_type=np.int64)
    loaded = framework.load(saved(model, tmp_path), pins={"name:mul": "cpu_ref", "name:*": "cpu_acc"})
    assert loaded.steps == ("cpu_acc",)
    pins = {"name:add": "cpu_acc", "name:mul": "cpu_ref", "name:sub": "cpu_acc"}
    loaded = framework.load(saved(model, tmp_path), pins=pins)
    assert loaded.steps == ("cpu_acc", "cpu_ref", "cpu_acc")
    assert loaded.arena_bytes == 2 * 64
    x = np.array([1, -2, 2**30])
    np.testing.assert_array_equal(loaded.run({"x": x})["y"], 2 * x * x - 2 * x)


def test_strings_can_be_inputs_and_outputs(framework: Framework, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(joining(2))
    loaded = framework.load(path)
    outputs = loaded.run({"a": np.array(["nn", "ä"], object), "b": np.array(["hal", ""], object)})
    assert outputs["y"].tolist() == ["nnhal", "ä"]


def test_strings_of_a_binding_are_as_long_as_their_memory_allows(framework: Framework, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(joining(1))
    with framework.load(path) as loaded, loaded.bind(dimensions={"a": (9000,)}) as binding:
        for length in (1, 2000, 0):
            binding.put("a", np.array(["x" * length], object))
            binding.put("b", np.array(["y"], object))
            assert binding.run().direct
            assert binding.value("y").tolist() == ["x" * length + "y"]
        binding.put("a", np.array(["x" * 5000], object))
        with pytest.raises(OutputTooSmallError, match=r"output 'y' .* has 4,096 bytes of 5,\d\d\d; bind\(dimensions="):
            binding.run()
        with pytest.raises(ValueError, match=r"'a' needs 9,\d\d\d bytes of memory, of 9,000: bind\(dimensions="):
            binding.put("a", np.array(["x" * 9000], object))
        binding.put("a", np.array(["z"], object))
        assert binding.run().direct
        assert binding.value("y").tolist() == ["zy"]


def test_an_output_of_unknown_type_is_what_it_turns_out_to_be(framework: Framework, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(untyped())
    x = np.array([1, -1], np.float32)
    (expected,) = by_onnxruntime(onnx.load(path), {"x": x})
    with framework.load(path) as loaded, loaded.bind() as binding:
        np.testing.assert_array_equal(loaded.run({"x": x})["y"], expected)
        binding.put("x", x)
        binding.run()
        np.testing.assert_array_equal(binding.value("y"), expected)


def test_values_of_unknown_size_pass_between_devices(framework: Framework, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["n"], name="find"),
        helper.make_node("Cast", ["n"], ["f"], to=TensorProto.FLOAT, name="cast"),
        helper.make_node("Erf", ["f"], ["y"], name="erf"),
    ]
    path = saved(onnx_model(nodes, {"x": [4]}, ["y"]), tmp_path)
    loaded = framework.load(path, pins={"name:find": "cpu_acc", "name:cast": "cpu_ref", "name:erf": "cpu_acc"})
    assert len(loaded.steps) > 1
    for x in np.array([[1, 1, 0, 1], [0, 1, 0, 0], [1, 1, 1, 1]], np.float32):
        y = loaded.run({"x": x})["y"]
        np.testing.assert_allclose(y, np.array([[erf(number) for number in np.flatnonzero(x)]]), atol=1e-6)


def test_an_operator_that_no_device_has_is_named_with_every_refusal(framework: Framework, tmp_path: Path) -> None:
    node = helper.make_node("Nonsense", ["x"], ["y"], name="odd", domain="com.example")
    model = onnx_model([node], {"x": [2]}, [])
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [2]))
    with pytest.raises(HalError, match=r"node odd: cpu_acc: .*Nonsense.*; cpu_ref: .*Nonsense"):
        framework.load(saved(model, tmp_path))


@pytest.mark.parametrize("device", ["cpu_acc", "cpu_ref"])
@pytest.mark.parametrize(
    ("nodes", "rank", "fits", "fits_not"),
    [
        ([make_node("Reshape", ["x", "n"], ["y"])], 1, [6], [7]),
        ([make_node("Reshape", ["x", "n"], ["y"])], 1, [-1], [4]),
        ([make_node("Reshape", ["x", "n"], ["y"])], 2, [2, 3], [2, 4]),
        ([make_node("Mul", ["n", "two"], ["m"]), make_node("Reshape", ["x", "m"], ["y"])], 1, [3], [5]),
        ([make_node("Concat", ["n", "rest"], ["t"], axis=0), make_node("Reshape", ["x", "t"], ["y"])], 2, [3], [4]),
        ([make_node("Unsqueeze", ["x", "n"], ["y"])], 3, [2], [5]),
        ([make_node("Squeeze", ["x", "n"], ["y"])], 1, [0], [1]),
    ],
)
def test_a_shape_that_comes_with_a_run_counts_and_fails_if_it_does_not_fit(
    nodes: list[onnx.NodeProto],
    rank: int,
    fits: list[int],
    fits_not: list[int],
    device: str,
    framework: Framework,
    tmp_path: Path,
) -> None:
    shape = [1, 6] if nodes[-1].op_type == "Squeeze" else [2, 3]
    constants = {"two": np.array([2]), "rest": np.array([-1])}
    inputs = {"x": shape, "n": [len(fits)]}
    proto = onnx_model(nodes, inputs, ["y"], constants, element_types={"n": np.int64})
    declared = proto.graph.output[0].type.tensor_type.shape
    declared.ClearField("dim")
    for _ in range(rank):
        declared.dim.add()
    x = random(*shape)
    with framework.load(saved(proto, tmp_path), devices=[device]) as model:
        given = {"x": x, "n": np.array(fits, np.int64)}
        (expected,) = by_onnxruntime(proto, given)
        np.testing.assert_array_equal(model.run(given)["y"], expected, strict=True)
        with pytest.raises(HalError):
            model.run({"x": x, "n": np.array(fits_not, np.int64)})
