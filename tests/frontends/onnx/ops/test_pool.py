"""Pooling and means against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, onnx_model, operations, random

IMAGE = {"x": random(1, 4, 9, 7)}
OPEN_BATCH = {"x": ["N", 4, 9, 7]}
WINDOWS: list[dict[str, Any]] = [
    {},
    {"strides": [2, 3], "pads": [1, 0, 1, 1]},
    {"strides": [2, 2], "ceil_mode": 1},
    {"strides": [2, 2], "ceil_mode": 1, "pads": [1, 0, 0, 1]},
    {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
]


@pytest.mark.parametrize("attributes", WINDOWS)
@pytest.mark.parametrize(("op_type", "operation"), [("MaxPool", "MAX_POOL_2D"), ("AveragePool", "AVERAGE_POOL_2D")])
def test_windows_agree_with_onnxruntime(op_type: str, operation: str, attributes: dict[str, Any]) -> None:
    node = make_node(op_type, ["x"], ["y"], kernel_shape=[3, 2], **attributes)
    assert operations(check(onnx_model([node], OPEN_BATCH, ["y"]), IMAGE)) == [operation]


@pytest.mark.parametrize("attributes", WINDOWS[:4])
def test_padding_that_counts_is_added_before(attributes: dict[str, Any]) -> None:
    node = make_node("AveragePool", ["x"], ["y"], kernel_shape=[3, 2], count_include_pad=1, **attributes)
    expected = ["PAD", "AVERAGE_POOL_2D"] if "pads" in attributes else ["AVERAGE_POOL_2D"]
    assert operations(check(onnx_model([node], OPEN_BATCH, ["y"]), IMAGE)) == expected


def test_images_of_one_axis_are_pooled() -> None:
    node = make_node("MaxPool", ["x"], ["y"], kernel_shape=[3], strides=[2])
    check(onnx_model([node], {"x": [2, 3, 9]}, ["y"]), {"x": random(2, 3, 9)})


def test_indices_of_maxima_are_refused() -> None:
    node = make_node("MaxPool", ["x"], ["y", "i"], "pool", kernel_shape=[2, 2])
    with pytest.raises(UnsupportedNode, match="indices"):
        import_onnx(onnx_model([node], OPEN_BATCH, ["y", "i"]), extension=False)


def test_global_average_of_images_of_unknown_size() -> None:
    nodes = [make_node("GlobalAveragePool", ["x"], ["m"]), make_node("Flatten", ["m"], ["y"])]
    model = onnx_model(nodes, {"x": ["N", 4, "H", "W"]}, ["y"])
    assert operations(check(model, IMAGE)) == ["MEAN", "RESHAPE"]


@pytest.mark.parametrize(
    ("opset", "attributes", "axes"),
    [
        (13, {"axes": [2, 3], "keepdims": 0}, None),
        (18, {}, [-1]),
        (18, {"keepdims": 0}, None),
        (18, {"noop_with_empty_axes": 1}, None),
    ],
)
def test_reduce_mean_of_old_and_new_opsets(opset: int, attributes: dict[str, Any], axes: list[int] | None) -> None:
    inputs = ["x"] if axes is None else ["x", "axes"]
    constants = {} if axes is None else {"axes": np.array(axes)}
    node = make_node("ReduceMean", inputs, ["y"], **attributes)
    check(onnx_model([node], {"x": [1, 4, 9, 7]}, ["y"], constants, opset), IMAGE)


@pytest.mark.parametrize(
    ("op_type", "expected"), [("GlobalMaxPool", ["REDUCE_MAX"]), ("GlobalLpPool", ["MUL", "REDUCE_SUM", "SQRT"])]
)
def test_whole_images(op_type: str, expected: list[str]) -> None:
    model = onnx_model([make_node(op_type, ["x"], ["y"])], OPEN_BATCH, ["y"])
    assert operations(check(model, IMAGE)) == expected


def test_roots_of_sums_of_squares() -> None:
    node = make_node("LpPool", ["x"], ["y"], kernel_shape=[2, 3], strides=[2, 1])
    assert operations(check(onnx_model([node], OPEN_BATCH, ["y"], opset=11), IMAGE)) == ["L2_POOL_2D", "MUL"]


@pytest.mark.parametrize(("attributes", "reason"), [({"p": 3}, "p 3; supported: p 2"), ({"pads": [1] * 4}, "padding")])
def test_other_norms_are_refused(attributes: dict[str, Any], reason: str) -> None:
    node = make_node("LpPool", ["x"], ["y"], kernel_shape=[2, 2], **attributes)
    with pytest.raises(UnsupportedNode, match=reason):
        import_onnx(onnx_model([node], OPEN_BATCH, ["y"], opset=11), extension=False)
