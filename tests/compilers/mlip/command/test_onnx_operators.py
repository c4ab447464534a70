"""Operators of ONNX as the public flow sees them compute what ONNX Runtime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.flow_graphs import operators
from tests.support.onnx_flow import checked, node, one
from tests.support.onnx_models import onnx_model, random

_STATISTICS = [random(3), random(3), random(3), random(3, low=0.5)]
_COUNTED = {"kernel_shape": [3, 2], "pads": [1, 0, 2, 1], "count_include_pad": 1}

ONE_INPUT: list[tuple[str, tuple[int, ...], list[Any], int, dict[str, Any], str]] = [
    ("Relu", (2, 3), [], 21, {}, "relu"),
    ("LeakyRelu", (2, 3), [], 21, {"alpha": 0.25}, "leaky_relu"),
    ("Clip", (2, 3), [np.float32(-0.5), np.float32(0.75)], 21, {}, "clip"),
    ("Clip", (2, 3), [None, np.float32(0.75)], 21, {}, "clip"),
    ("Clip", (2, 3), [np.float32(0)], 21, {}, "clip"),
    ("Clip", (2, 3), [], 7, {"max": 0.25}, "clip"),
    ("Softmax", (2, 3, 4), [], 21, {}, "softmax"),
    ("Softmax", (2, 3, 4), [], 11, {}, "onnx.Softmax"),
    ("Flatten", (2, 3, 4), [], 21, {}, "batch_flatten"),
    ("Flatten", (2, 3, 4), [], 21, {"axis": 0}, "reshape"),
    ("Flatten", (2, 3, 4), [], 21, {"axis": -1}, "reshape"),
    ("Flatten", (3,), [], 21, {}, "reshape"),
    ("Squeeze", (1, 3, 1, 2), [], 21, {}, "squeeze"),
    ("Squeeze", (1, 3, 1, 2), [np.array([-2])], 21, {}, "squeeze"),
    ("Squeeze", (1, 3, 1, 2), [], 11, {"axes": [0, 2]}, "squeeze"),
    ("Squeeze", (2, 3), [], 21, {}, "onnx.Squeeze"),
    ("Unsqueeze", (2, 3), [np.array([0, -1])], 21, {}, "reshape"),
    ("Transpose", (2, 3, 4), [], 21, {"perm": [1, 2, 0]}, "transpose"),
    ("Reshape", (2, 3, 4), [np.array([0, 0, 2, -1])], 21, {}, "reshape"),
    ("Pad", (2, 3, 4), [np.array([0, 1, 2, 1, 0, 3]), np.float32(2.5)], 21, {}, "pad"),
    ("Pad", (2, 3, 4), [np.array([0, 1, 2, 1, 0, 3])], 21, {"mode": "wrap"}, "onnx.Pad"),
    ("ReduceMean", (2, 3, 4, 5), [np.array([2, 3])], 21, {}, "mean"),
    ("ReduceMean", (2, 3, 4, 5), [np.array([-1])], 21, {"keepdims": 0}, "mean"),
    ("ReduceMean", (2, 3, 4, 5), [], 13, {"axes": [1, 2]}, "mean"),
    ("ReduceMean", (2, 3, 4, 5), [], 21, {"noop_with_empty_axes": 1}, "onnx.ReduceMean"),
    ("BatchNormalization", (2, 3, 4, 5), _STATISTICS, 21, {}, "batch_norm"),
    ("BatchNormalization", (2, 3), _STATISTICS, 7, {"epsilon": 0.1}, "batch_norm"),
    ("Sub", (2, 3, 4), [random(4)], 21, {}, "subtract"),
    ("MatMul", (2, 3), [random(3, 5)], 21, {}, "dense"),
    ("MatMul", (4, 2, 3), [random(3, 5)], 21, {}, "dense"),
    ("MatMul", (4, 2, 3), [random(4, 3, 5)], 21, {}, "onnx.MatMul"),
    ("Gemm", (2, 3), [random(3, 5)], 21, {"alpha": 0.5}, "dense"),
    ("Conv", (2, 4, 9, 9), [random(6, 2, 3, 3)], 21, {"group": 2, "auto_pad": "SAME_LOWER"}, "conv2d"),
    ("Conv", (1, 3, 5), [random(2, 3, 2)], 21, {}, "onnx.Conv"),
    ("MaxPool", (2, 3, 9, 9), [], 21, {"kernel_shape": [3, 3], "strides": [2, 3], "ceil_mode": 1}, "max_pool2d"),
    ("AveragePool", (2, 3, 9, 9), [], 21, {"kernel_shape": [3, 2], "pads": [1, 0, 2, 1]}, "avg_pool2d"),
    ("AveragePool", (2, 3, 9, 9), [], 21, _COUNTED, "avg_pool2d"),
    ("AveragePool", (2, 3, 9, 9), [], 21, {**_COUNTED, "strides": [2, 2], "ceil_mode": 1}, "onnx.AveragePool"),
    ("GlobalAveragePool", (2, 3, 5, 4), [], 21, {}, "global_avg_pool2d"),
    ("GlobalMaxPool", (2, 3, 5, 4), [], 21, {}, "global_max_pool2d"),
    ("Erf", (2, 3), [], 21, {}, "erf"),
    ("PRelu", (2, 3), [random(3)], 21, {}, "prelu"),
    ("HardSigmoid", (2, 3), [], 21, {"alpha": 0.3}, "hard_sigmoid"),
    ("HardSwish", (2, 3), [], 21, {}, "hard_swish"),
    ("Gelu", (2, 3), [], 21, {}, "gelu"),
    ("Gelu", (2, 3), [], 21, {"approximate": "tanh"}, "gelu_tanh"),
]


@pytest.mark.parametrize(("op_type", "shape", "constants", "opset", "attributes", "word"), ONE_INPUT)
def test_operators_of_one_input(
    op_type: str, shape: tuple[int, ...], constants: list[Any], opset: int, attributes: dict[str, Any], word: str
) -> None:
    graph = one(op_type, *shape, constants=constants, opset=opset, **attributes)
    assert operators(graph) == [word]
    assert graph.nodes[0].name == "the node"
    assert graph.outputs == {"y": "y"}


def test_a_sum_of_several_is_added_from_the_left() -> None:
    assert operators(one("Sum", 2, 3, more=["a", "b", "c"])) == ["add", "add", "add"]


@pytest.mark.parametrize("c_shape", [(5,), (1, 5), (1,), (), (2, 1), (2, 5)])
@pytest.mark.parametrize("attributes", [{"beta": 2.0}, {"transB": 1}, {"transA": 1, "alpha": 0.5, "beta": 2.0}])
def test_gemm_of_constants(c_shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    x = (3, 2) if attributes.get("transA") else (2, 3)
    w = (5, 3) if attributes.get("transB") else (3, 5)
    turned = ["transpose"] * bool(attributes.get("transA"))
    graph = one("Gemm", *x, constants=[random(*w), random(*c_shape)], **attributes)
    assert operators(graph) == [*turned, "dense", "add" if c_shape in ((2, 1), (2, 5)) else "bias_add"]


@pytest.mark.parametrize("attributes", [{}, {"transB": 1}, {"alpha": 3.0, "beta": 0.0}, {"alpha": 0.5, "beta": 2.0}])
def test_gemm_of_computed_factors(attributes: dict[str, Any]) -> None:
    shapes = {"x": (2, 3), "w": (5, 3) if attributes.get("transB") else (3, 5), "c": (5,)}
    model = onnx_model([node("Gemm", ["x", "w", "c"], ["y"], **attributes)], shapes, ["y"])
    assert "dense" in operators(checked(model))


def test_concatenations_may_have_constants() -> None:
    graph = one("Concat", 2, 3, more=["z"], constants=[random(2, 3)], axis=-1)
    assert operators(graph) == ["concatenate"]


@pytest.mark.parametrize("op_type", ["Identity", "Dropout"])
def test_what_does_nothing_vanishes(op_type: str) -> None:
    assert operators(one(op_type, 2, 3)) == ["reshape"]


def test_a_scalar_has_an_axis() -> None:
    assert operators(one("ReduceMean", 2, 3, 4, 5, keepdims=0)) == ["mean", "reshape"]
