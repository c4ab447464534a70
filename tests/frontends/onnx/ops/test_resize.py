"""Resize and Upsample against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto
from onnx.helper import make_node

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, onnx_model, operations, random

SHAPE = (1, 2, 4, 6)
X = {"x": random(*SHAPE)}


def resized(
    sizes: list[int] | None = None, scales: list[float] | None = None, opset: int = 13, **attributes: Any
) -> ModelProto:
    constants: dict[str, Any] = {"sizes": np.array(sizes)} if sizes else {"scales": np.array(scales, np.float32)}
    inputs = ["x", "", "", "sizes"] if sizes else ["x", "", "scales"]
    return onnx_model([make_node("Resize", inputs, ["y"], **attributes)], {"x": SHAPE}, ["y"], constants, opset)


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize(
    "transformation", ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "tf_half_pixel_for_nn"]
)
@pytest.mark.parametrize("sizes", [[1, 2, 8, 12], [1, 2, 7, 9], [1, 2, 2, 4], [1, 2, 1, 1]])
def test_nearest_pixels(sizes: list[int], transformation: str, rounding: str) -> None:
    model = resized(sizes, coordinate_transformation_mode=transformation, nearest_mode=rounding)
    assert set(operations(check(model, X))) in ({"RESIZE_NEAREST_NEIGHBOR"}, {"GATHER"})


@pytest.mark.parametrize(
    ("transformation", "rounding"),
    [
        ("asymmetric", "floor"),
        ("half_pixel", "round_prefer_floor"),
        ("half_pixel", "round_prefer_ceil"),
        ("align_corners", "round_prefer_ceil"),
    ],
)
def test_doubling_is_one_operation(transformation: str, rounding: str) -> None:
    scales = [1.0, 1.0, 2.0, 2.0]
    model = resized(None, scales, coordinate_transformation_mode=transformation, nearest_mode=rounding)
    assert operations(check(model, X)) == ["RESIZE_NEAREST_NEIGHBOR"]


def test_factors_decide_if_they_give_no_whole_sizes() -> None:
    scales = [1, 1, 1.4, 0.7]
    model = resized(None, scales, coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    check(model, X)


@pytest.mark.parametrize("transformation", ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("sizes", [[1, 2, 8, 12], [1, 2, 7, 9], [1, 2, 2, 3]])
def test_interpolation(sizes: list[int], transformation: str) -> None:
    model = resized(sizes, mode="linear", coordinate_transformation_mode=transformation)
    assert operations(check(model, X)) == ["RESIZE_BILINEAR"]
    doubled = resized(None, [1, 1, 2, 2], mode="linear", coordinate_transformation_mode=transformation)
    assert operations(check(doubled, X)) == ["RESIZE_BILINEAR"]


def test_interpolation_of_one_axis() -> None:
    node = make_node("Resize", ["x", "", "s"], ["y"], mode="linear")
    model = onnx_model([node], {"x": [1, 2, 5]}, ["y"], {"s": np.array([1, 1, 2], np.float32)}, 13)
    assert operations(check(model, {"x": random(1, 2, 5)})) == ["RESHAPE", "RESIZE_BILINEAR", "RESHAPE"]


def test_some_axes() -> None:
    node = make_node("Resize", ["x", "", "", "s"], ["y"], axes=[-1, 2], mode="linear")
    model = onnx_model([node], {"x": SHAPE}, ["y"], {"s": np.array([9, 8])}, 18)
    assert operations(check(model, X)) == ["RESIZE_BILINEAR"]


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize(("op_type", "opset"), [("Upsample", 7), ("Upsample", 9), ("Resize", 10)])
def test_old_opsets(op_type: str, opset: int, mode: str) -> None:
    scales = np.array([1, 1, 2, 3], np.float32)
    if opset == 7:
        model = onnx_model(
            [make_node(op_type, ["x"], ["y"], mode=mode, scales=scales.tolist())], {"x": SHAPE}, ["y"], opset=7
        )
    else:
        model = onnx_model(
            [make_node(op_type, ["x", "s"], ["y"], mode=mode)], {"x": SHAPE}, ["y"], {"s": scales}, opset
        )
    assert operations(check(model, X)) == ["RESIZE_NEAREST_NEIGHBOR" if mode == "nearest" else "RESIZE_BILINEAR"]


def test_integers_are_gathered() -> None:
    node = make_node("Resize", ["x", "", "", "s"], ["y"])
    model = onnx_model([node], {"x": [1, 1, 2, 2]}, ["y"], {"s": np.array([1, 1, 4, 6])}, 13, np.int32)
    values = {"x": np.arange(4, dtype=np.int32).reshape(1, 1, 2, 2)}
    assert operations(check(model, values)) == ["GATHER", "GATHER"]


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"mode": "cubic"}, "mode cubic; supported: nearest, linear"),
        ({"mode": "linear", "coordinate_transformation_mode": "tf_half_pixel_for_nn"}, "mode linear with tf_half"),
        ({"coordinate_transformation_mode": "tf_crop_and_resize"}, "coordinate_transformation_mode tf_crop_and_resize"),
        ({"mode": "linear", "antialias": 1}, "antialias"),
        ({"keep_aspect_ratio_policy": "not_larger"}, "policy not_larger"),
    ],
)
def test_other_ways_are_refused(attributes: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnsupportedNode, match=reason):
        import_onnx(resized([1, 2, 2, 3], opset=19, **attributes), extension=False)
