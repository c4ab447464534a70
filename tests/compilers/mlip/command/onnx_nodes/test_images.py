"""Conv and pools compute what ONNX Runtime computes."""

from __future__ import annotations

from typing import Any

import pytest

from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.graph.flow_graph import SourceNode
from tests.support.flow_graphs import operators
from tests.support.onnx_flow import as_it_is, checked, node, one
from tests.support.onnx_models import onnx_model, random

CONVOLUTIONS: list[tuple[dict[str, Any], int, tuple[int, ...]]] = [
    ({}, 4, (6, 4, 3, 3)),
    ({"strides": [2, 1], "pads": [1, 0, 2, 3]}, 4, (6, 4, 3, 2)),
    ({"dilations": [2, 3], "pads": [2, 2, 2, 2]}, 3, (2, 3, 3, 2)),
    ({"group": 2, "pads": [1, 1, 1, 1]}, 4, (6, 2, 3, 3)),
    ({"group": 4, "strides": [2, 2]}, 4, (4, 1, 3, 3)),
    ({"group": 4}, 4, (8, 1, 2, 2)),
    ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, 3, (5, 3, 3, 3)),
    ({"auto_pad": "SAME_LOWER", "strides": [2, 3]}, 3, (5, 3, 4, 2)),
    ({"auto_pad": "VALID"}, 3, (5, 3, 4, 2)),
]


@pytest.mark.parametrize(("attributes", "channels", "weight"), CONVOLUTIONS)
@pytest.mark.parametrize("bias", [False, True])
def test_convolutions(attributes: dict[str, Any], channels: int, weight: tuple[int, ...], bias: bool) -> None:
    constants = [random(*weight), random(weight[0])] if bias else [random(*weight)]
    graph = one("Conv", 2, channels, 9, 11, constants=constants, **attributes)
    assert operators(graph) == (["conv2d", "bias_add"] if bias else ["conv2d"])
    assert graph.nodes[0].sources == (SourceNode(0, "the node", "Conv"),)
    assert graph.nodes[-1].outputs == ("y",)


def test_weights_that_are_computed_are_no_constants() -> None:
    model = onnx_model([node("Conv", ["x", "w"], ["y"])], {"x": (1, 3, 5, 5), "w": (2, 3, 3, 3)}, ["y"])
    assert checked(model).nodes[0].inputs == ("x", "w")


WINDOWS: list[dict[str, Any]] = [
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 2], "strides": [1, 2], "pads": [1, 0, 2, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [3, 3], "strides": [2, 3], "ceil_mode": 1},
    {"kernel_shape": [3, 3], "strides": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 1, 0, 1], "ceil_mode": 1},
    {"kernel_shape": [1, 1], "strides": [3, 3], "ceil_mode": 1},
    {"kernel_shape": [2, 3], "dilations": [2, 2], "strides": [1, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [2, 3], "dilations": [3, 2], "strides": [2, 2], "ceil_mode": 1},
]


@pytest.mark.parametrize("side", [9, 10, 11])
@pytest.mark.parametrize("attributes", WINDOWS)
def test_max_pools(attributes: dict[str, Any], side: int) -> None:
    graph = one("MaxPool", 2, 3, side, 10, **attributes)
    assert operators(graph) == ["max_pool2d"]
    assert not graph.nodes[0].attributes["ceil_mode"]


@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize("side", [9, 10, 11])
@pytest.mark.parametrize("attributes", WINDOWS)
def test_average_pools(attributes: dict[str, Any], side: int, counted: int) -> None:
    assert operators(one("AveragePool", 2, 3, side, 10, count_include_pad=counted, **attributes)) == ["avg_pool2d"]


def test_the_indices_of_maxima_are_for_the_host() -> None:
    pool = node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2])
    graph = checked(onnx_model([pool], {"x": (1, 2, 5, 5)}, ["y", "i"]))
    assert operators(graph) == ["onnx.MaxPool"]
    assert graph.nodes[0].outputs == ("y", "i")


@pytest.mark.parametrize("last", ["Relu", "Erf", "Concat"])
def test_a_window_that_begins_in_the_padding_is_left_out_whatever_onnx_infers(last: str) -> None:
    # ONNX infers four rows before opset 22. Nobody computes them.
    nodes = [node("MaxPool", ["x"], ["p"], kernel_shape=[1, 1], strides=[3, 3], ceil_mode=1)]
    if last == "Concat":
        nodes.append(node("Concat", ["p", "z"], ["y"], axis=0))
    else:
        nodes.append(node(last, ["p"], ["y"]))
    inputs = {"x": (1, 1, 9, 9)} | ({"z": (1, 1, 4, 4)} if last == "Concat" else {})
    model = onnx_model(nodes, inputs, ["y"], opset=21)
    if last == "Concat":
        with pytest.raises(FlowError, match="Concat_1"):
            as_it_is(model)
    else:
        assert checked(model).shape("y") == (1, 1, 3, 3)


@pytest.mark.parametrize(
    ("op_type", "word"), [("GlobalAveragePool", "global_avg_pool2d"), ("GlobalMaxPool", "global_max_pool2d")]
)
def test_global_pools(op_type: str, word: str) -> None:
    assert operators(one(op_type, 2, 3, 5, 4)) == [word]


@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool", "MaxPool", "AveragePool", "Conv"])
@pytest.mark.parametrize("axes", [1, 3])
def test_images_of_other_than_two_axes_are_for_the_host(op_type: str, axes: int) -> None:
    attributes: dict[str, Any] = {"kernel_shape": [2] * axes} if op_type in ("MaxPool", "AveragePool") else {}
    constants = [random(2, 3, *[2] * axes)] if op_type == "Conv" else []
    graph = one(op_type, 1, 3, *[5] * axes, constants=constants, **attributes)
    assert operators(graph) == [f"onnx.{op_type}"]
