"""Resize and Upsample of ONNX on cpu_ref, over their attributes, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from nnhal_devices.cpu_ref.onnx_operators import OPERATORS
from nnhal_devices.cpu_ref.onnx_refusals import RESIZE_VALUES, refusal

_CASES = 12
_FACTORS = (0.3, 0.5, 0.6, 0.7, 1.0, 1.3, 1.5, 2.0, 2.5, 3.0)
_IMAGES: dict[str, Sequence[tuple[int, Sequence[int]]]] = {
    "nearest": ((1, (0,)), (2, (0, 1)), (3, (0, 2)), (4, (0, 1, 2, 3)), (5, (2, 3, 4))),
    "linear": ((2, (0, 1)), (3, (1, 2)), (3, (0, 1, 2)), (4, (2, 3)), (4, (1, 2)), (5, (2, 3, 4))),
    "cubic": ((2, (0, 1)), (4, (2, 3)), (4, (1, 2))),
}
"""Ranks, and the axes that are resized."""
_TRANSFORMATIONS = [value.decode() for value in RESIZE_VALUES["coordinate_transformation_mode"]]
Values = NDArray[Any]


def resize(operator: str, opset: int, x: Values, inputs: Sequence[Values | None], **attributes: Any) -> onnx.ModelProto:
    names = ["x", *("" if value is None else f"i{index}" for index, value in enumerate(inputs))]
    constants = [numpy_helper.from_array(v, n) for n, v in zip(names[1:], inputs, strict=True) if v is not None]
    graph = helper.make_graph(
        [helper.make_node(operator, names, ["y"], **attributes)],
        "g",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [onnx.ValueInfoProto(name="y")],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def drawn(rng: np.random.Generator, mode: str, transformation: str) -> tuple[onnx.ModelProto, Values]:
    """Return a model with attributes that ONNX Runtime takes, and its input."""
    opset = int(rng.choice([13, 18, 19] if transformation != "half_pixel_symmetric" else [19]))
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": transformation}
    rank, resized = _IMAGES[mode][int(rng.integers(len(_IMAGES[mode])))]
    last = mode == "cubic" and resized == (1, 2)
    if last:  # channels, for which ONNX Runtime has filters only
        opset = 19
    shape = [int(rng.integers(1, 7)) if axis in resized else 2 for axis in range(rank)]
    axes = list(range(rank))
    if mode == "nearest":
        attributes["nearest_mode"] = str(rng.choice(RESIZE_VALUES["nearest_mode"]).decode())
    if mode == "cubic":
        attributes["cubic_coeff_a"] = float(rng.choice([-0.75, -0.5]))
    if opset >= 18 and mode != "nearest" and transformation != "tf_crop_and_resize":
        attributes["antialias"] = int(last or rng.integers(2))
    if mode == "cubic" or attributes.get("antialias"):
        attributes["exclude_outside"] = int(rng.integers(2))
    if opset >= 18 and rng.random() < 0.4:
        axes = rng.permutation(resized).tolist()
        attributes["axes"] = axes
    roi = None
    if transformation == "tf_crop_and_resize":
        roi = np.concatenate([rng.uniform(-0.2, 0.4, len(axes)), rng.uniform(0.6, 1.3, len(axes))]).astype(np.float32)
        attributes["extrapolation_value"] = 3.5
    scales = np.array([rng.choice(_FACTORS) if axis in resized else 1 for axis in axes], np.float32)
    sizes = np.array([int(rng.integers(1, 9)) if axis in resized else shape[axis] for axis in axes], np.int64)
    by_size = rng.random() < 0.5
    if by_size and opset >= 18 and "axes" in attributes:
        attributes["keep_aspect_ratio_policy"] = str(rng.choice(RESIZE_VALUES["keep_aspect_ratio_policy"]).decode())
    kinds: list[type[np.generic]] = [np.float32, np.float32, np.uint8, np.int8, np.int32]
    kind = np.float32 if mode == "cubic" and not attributes.get("antialias") else kinds[int(rng.integers(5))]
    low, high = (0, 255) if kind == np.uint8 else (-100, 100)
    x = rng.uniform(low, high, shape).astype(kind)
    inputs = [roi, None, sizes] if by_size else [roi, scales]
    return resize("Resize", opset, x, inputs, **attributes), x


def assert_agree(model: onnx.ModelProto, x: Values) -> None:
    assert refusal(model) is None
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    wanted: Any = session.run(None, {"x": x})
    results: Any = ReferenceEvaluator(model, new_ops=[*OPERATORS]).run(None, {"x": x})
    tolerance = 1e-4 if x.dtype.kind == "f" else 0.0  # of values up to 100
    got, expected = np.asarray(results[0]), np.asarray(wanted[0])
    np.testing.assert_allclose(got, expected, tolerance, 100 * tolerance, err_msg=str(model.graph.node[0]), strict=True)


@pytest.mark.parametrize("transformation", _TRANSFORMATIONS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_results_are_those_of_onnx_runtime(mode: str, transformation: str) -> None:
    if mode == "cubic" and transformation == "tf_crop_and_resize":
        return  # refused
    rng = np.random.default_rng([len(mode), _TRANSFORMATIONS.index(transformation)])
    for _ in range(_CASES):
        assert_agree(*drawn(rng, mode, transformation))


@pytest.mark.parametrize("kind", [np.float32, np.uint8, np.int32])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("factor", [0.3, 0.5, 0.75, 1.5, 2.0, 2.5])
def test_opsets_without_modes(mode: str, factor: float, kind: type[np.generic]) -> None:
    x = np.arange(35).reshape(1, 1, 5, 7).astype(kind)
    factors = np.array([1, 1, factor, factor], np.float32)
    assert_agree(resize("Resize", 10, x, [factors], mode=mode), x)
    if factor > 1:
        assert_agree(resize("Upsample", 9, x, [factors], mode=mode), x)
        assert_agree(resize("Upsample", 7, x, [], mode=mode, scales=factors.tolist()), x)


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("transformation", [each for each in _TRANSFORMATIONS if each != "tf_crop_and_resize"])
def test_places_between_two_pixels(transformation: str, rounding: str) -> None:
    x = np.arange(20, dtype=np.float32)
    modes = {"coordinate_transformation_mode": transformation, "nearest_mode": rounding}
    for factor in (0.3, 1 / 3, 0.4, 0.5, 0.6, 2 / 3, 1.3, 1.9999998, 1.9999996, 2, 2.0000005, 3, 4):
        assert_agree(resize("Resize", 19, x, [None, np.array([factor], np.float32)], **modes), x)


def test_one_element_is_the_first_or_the_middle() -> None:
    x = np.arange(5, dtype=np.float32).reshape(1, 1, 1, 5)
    one = np.array([1, 1, 1, 1], np.int64)
    for transformation in _TRANSFORMATIONS:
        for mode in ("nearest", "linear"):
            roi = np.array([0, 0, 0, 0.25, 1, 1, 1, 0.5], np.float32)
            modes = {"mode": mode, "coordinate_transformation_mode": transformation}
            assert_agree(resize("Resize", 19, x, [roi, None, one], **modes), x)


@pytest.mark.parametrize("kind", [np.float64, np.float16, np.int64, np.bool_])
def test_types_that_onnx_runtime_lacks(kind: type[np.generic]) -> None:
    x = np.array([3, 1, 0, 1]).astype(kind)
    model = resize("Resize", 19, x, [None, np.array([2], np.float32)])
    results: Any = ReferenceEvaluator(model, new_ops=[*OPERATORS]).run(None, {"x": x})
    np.testing.assert_array_equal(results[0], np.repeat(x, 2), strict=True)


@pytest.mark.parametrize(
    ("attributes", "kind", "got"),
    [
        ({"mode": "nearest", "antialias": 1}, np.float32, "antialias 1"),
        ({"mode": "linear", "exclude_outside": 1}, np.float32, "exclude_outside 1"),
        ({"axes": [-1], "keep_aspect_ratio_policy": "not_larger"}, np.float32, "axes [-1]"),
        (
            {"mode": "cubic", "coordinate_transformation_mode": "tf_crop_and_resize"},
            np.float32,
            "coordinate_transformation_mode tf_crop_and_resize",
        ),
        ({"mode": "cubic"}, np.uint8, f"input type {TensorProto.UINT8}"),
        ({"mode": "linear"}, np.int64, f"input type {TensorProto.INT64}"),
        ({"mode": "area"}, np.float32, "mode area"),
        ({"nearest_mode": "half"}, np.float32, "nearest_mode half"),
    ],
)
def test_what_onnx_runtime_refuses_or_computes_otherwise_is_refused(
    attributes: dict[str, Any], kind: type[np.generic], got: str
) -> None:
    x = np.zeros(4, kind)
    refused = refusal(resize("Resize", 19, x, [None, np.array([2], np.float32)], **attributes))
    assert refused is not None
    assert f"Resize with {got}" in refused.got
