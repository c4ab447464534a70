"""Operators of any tensors compute what ONNX Runtime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.flow_graphs import operators
from tests.support.onnx_flow import one
from tests.support.onnx_models import random

ONE_INPUT: list[tuple[str, tuple[int, ...], list[Any], int, dict[str, Any], str]] = [
    ("Relu", (2, 3), [], 21, {}, "relu"),
    ("Sigmoid", (2, 3), [], 21, {}, "sigmoid"),
    ("Tanh", (2, 3), [], 21, {}, "tanh"),
    ("LeakyRelu", (2, 3), [], 21, {}, "leaky_relu"),
    ("LeakyRelu", (2, 3), [], 21, {"alpha": 0.25}, "leaky_relu"),
    ("Clip", (2, 3), [np.float32(-0.5), np.float32(0.75)], 21, {}, "clip"),
    ("Clip", (2, 3), [None, np.float32(0.75)], 21, {}, "clip"),
    ("Clip", (2, 3), [np.float32(0)], 21, {}, "clip"),
    ("Clip", (2, 3), [], 7, {"min": -0.5, "max": 0.25}, "clip"),
    ("Clip", (2, 3), [], 7, {"max": 0.25}, "clip"),
    ("Softmax", (2, 3, 4), [], 21, {}, "softmax"),
    ("Softmax", (2, 3, 4), [], 21, {"axis": 1}, "softmax"),
    ("Softmax", (2, 3), [], 11, {}, "softmax"),
    ("Softmax", (2, 3, 1, 1), [], 11, {}, "softmax"),
    ("Softmax", (2, 3, 4), [], 11, {"axis": -1}, "softmax"),
    ("Softmax", (2, 3, 4), [], 11, {}, "onnx.Softmax"),
    ("Flatten", (2, 3, 4), [], 21, {}, "batch_flatten"),
    ("Flatten", (2, 3, 4), [], 21, {"axis": 0}, "reshape"),
    ("Flatten", (2, 3, 4), [], 21, {"axis": 2}, "reshape"),
    ("Flatten", (2, 3, 4), [], 21, {"axis": -1}, "reshape"),
    ("Flatten", (2, 3, 4), [], 21, {"axis": 3}, "reshape"),
    ("Flatten", (3,), [], 21, {}, "reshape"),
    ("Squeeze", (1, 3, 1, 2), [], 21, {}, "squeeze"),
    ("Squeeze", (1, 3, 1, 2), [np.array([-2])], 21, {}, "squeeze"),
    ("Squeeze", (1, 3, 1, 2), [], 11, {"axes": [0, 2]}, "squeeze"),
    ("Squeeze", (2, 3), [], 21, {}, "copy"),
    ("Unsqueeze", (2, 3), [np.array([0, -1])], 21, {}, "reshape"),
    ("Unsqueeze", (2, 3), [], 11, {"axes": [1, 3]}, "reshape"),
    ("Transpose", (2, 3, 4), [], 21, {}, "transpose"),
    ("Transpose", (2, 3, 4), [], 21, {"perm": [1, 2, 0]}, "transpose"),
    ("Reshape", (2, 3, 4), [np.array([4, -1])], 21, {}, "reshape"),
    ("Reshape", (2, 3, 4), [np.array([0, 0, 2, -1])], 21, {}, "reshape"),
    ("Pad", (2, 3, 4), [np.array([0, 1, 2, 1, 0, 3])], 21, {}, "pad"),
    ("Pad", (2, 3, 4), [np.array([0, 1, 2, 1, 0, 3]), np.float32(2.5)], 21, {}, "pad"),
    ("Pad", (2, 3, 4), [np.array([1, 2]), None, np.array([-1])], 21, {}, "pad"),
    ("Pad", (2, 3, 4), [np.array([0, 1, 2, 1, 0, 3])], 21, {"mode": "edge"}, "pad"),
    ("Pad", (2, 3, 4), [np.array([0, 1, 2, 1, 0, 3])], 21, {"mode": "reflect"}, "pad"),
    ("Pad", (2, 3, 4), [np.array([0, 1, 2, 1, 0, 3])], 21, {"mode": "wrap"}, "onnx.Pad"),
    ("Pad", (2, 3, 4), [np.array([0, -1, 2, 1, 0, -1])], 21, {}, "onnx.Pad"),
    ("Pad", (2, 3, 4), [], 10, {"pads": [0, 1, 2, 1, 0, 3], "value": 1.5}, "pad"),
    ("ReduceMean", (2, 3, 4, 5), [np.array([2, 3])], 21, {}, "mean"),
    ("ReduceMean", (2, 3, 4, 5), [np.array([-1])], 21, {"keepdims": 0}, "mean"),
    ("ReduceMean", (2, 3, 4, 5), [], 21, {"noop_with_empty_axes": 1}, "copy"),
    ("ReduceMean", (2, 3, 4, 5), [], 13, {"axes": [1, 2]}, "mean"),
    ("BatchNormalization", (2, 3, 4, 5), [random(3), random(3), random(3), random(3, low=0.5)], 21, {}, "batch_norm"),
    (
        "BatchNormalization",
        (2, 3),
        [random(3), random(3), random(3), random(3, low=0.5)],
        21,
        {"epsilon": 0.1},
        "batch_norm",
    ),
    ("BatchNormalization", (2, 3), [random(3), random(3), random(3), random(3, low=0.5)], 7, {}, "batch_norm"),
    ("Add", (2, 3, 4), [random(3, 1)], 21, {}, "add"),
    ("Sub", (2, 3, 4), [random(4)], 21, {}, "subtract"),
    ("Mul", (2, 3, 4), [random(5, 1, 1, 1)], 21, {}, "multiply"),
    ("Div", (2, 3, 4), [random(3, 4, low=0.5)], 21, {}, "divide"),
    ("MatMul", (2, 3), [random(3, 5)], 21, {}, "dense"),
    ("MatMul", (4, 2, 3), [random(3, 5)], 21, {}, "dense"),
    ("MatMul", (3,), [random(3, 5)], 21, {}, "onnx.MatMul"),
    ("MatMul", (4, 2, 3), [random(4, 3, 5)], 21, {}, "onnx.MatMul"),
    ("Sum", (2, 3), [], 21, {}, "copy"),
    ("Erf", (2, 3), [], 21, {}, "erf"),
    ("Softplus", (2, 3), [], 21, {}, "onnx.Softplus"),
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


@pytest.mark.parametrize(
    ("op_type", "words"),
    [("Add", ["add"]), ("Sub", ["subtract"]), ("Mul", ["multiply"]), ("Div", ["divide"]), ("Sum", ["add"])],
)
def test_operators_of_two_inputs(op_type: str, words: list[str]) -> None:
    assert operators(one(op_type, 2, 3, more=["z"])) == words


def test_a_sum_of_several_is_added_from_the_left() -> None:
    assert operators(one("Sum", 2, 3, more=["a", "b", "c"])) == ["add", "add", "add"]


def test_concatenations_may_have_constants() -> None:
    graph = one("Concat", 2, 3, more=["z"], constants=[random(2, 3)], axis=-1)
    assert operators(graph) == ["concatenate"]
    assert graph.nodes[0].attributes["axis"] == 1


@pytest.mark.parametrize(
    ("op_type", "constants", "opset", "attributes"),
    [
        ("Identity", [], 21, {}),
        ("Dropout", [], 21, {}),
        ("Dropout", [np.float32(0.5), np.array(False)], 21, {}),
        ("Dropout", [], 11, {"ratio": 0.3}),
    ],
)
def test_what_does_nothing_vanishes(op_type: str, constants: list[Any], opset: int, attributes: dict[str, Any]) -> None:
    assert operators(one(op_type, 2, 3, constants=constants, opset=opset, **attributes)) == ["reshape"]


def test_a_scalar_has_an_axis() -> None:
    assert operators(one("ReduceMean", 2, 3, 4, 5, keepdims=0)) == ["mean", "reshape"]
