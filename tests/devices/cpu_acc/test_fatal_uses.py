"""Uses of ONNX's operators at which ONNX Runtime ends its process, wherever they stand in a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from nnhal_devices.cpu_acc.fatal_uses import fatal_use

QUOTIENT = "a quotient of integers by what may be -1"


def node(operator: str, inputs: str, output: str = "y", **attributes: Any) -> NodeProto:
    return helper.make_node(operator, inputs.split(), [output], **attributes)


def branch(*nodes: NodeProto) -> GraphProto:
    return helper.make_graph(nodes, "branch", [], [])


def constant(name: str, *values: int) -> NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(values)))


def use_of(nodes: Sequence[NodeProto], element: int = TensorProto.INT64) -> str:
    """Return the fatal use of a graph from x and z, or nothing."""
    values = [helper.make_tensor_value_info(name, element, [2]) for name in "xz"]
    graph = helper.make_graph(list(nodes), "g", values, [helper.make_empty_tensor_value_info("y")])
    found = fatal_use(graph)
    return "" if found is None else found.got


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Div", "x z")],
        [constant("d", 2, -1), node("Div", "x d")],
        [node("Shape", "x", "s"), node("Div", "s s")],
        [node("Cast", "x", "c", to=TensorProto.INT32), node("Div", "c z")],
        [constant("d", -1), node("Unsqueeze", "d axes", "u"), node("Div", "x u")],
        [node("Where", "b f x", "w"), node("Div", "w w")],
        [node("If", "b", then_branch=branch(node("Div", "x z")), else_branch=branch())],
    ],
    ids=["computed", "constant", "shape", "cast", "moved", "selected", "branch"],
)
def test_integers_are_not_divided_by_what_may_be_minus_one(nodes: list[NodeProto]) -> None:
    assert use_of(nodes) == QUOTIENT


@pytest.mark.parametrize(
    ("nodes", "element"),
    [
        ([node("Div", "x z")], TensorProto.FLOAT),
        ([constant("d", 2, 3), node("Div", "x d")], TensorProto.INT64),
        ([constant("d", 2), node("Unsqueeze", "d axes", "u"), node("Div", "x u")], TensorProto.INT64),
        ([node("Cast", "x", "c", to=TensorProto.FLOAT), node("Div", "c c")], TensorProto.INT64),
        ([node("DequantizeLinear", "x s", "f"), node("Div", "f f")], TensorProto.INT32),
        ([node("Div", "x z", domain="com.example")], TensorProto.INT64),
    ],
    ids=["floats", "constant", "moved", "cast", "dequantised", "other domain"],
)
def test_other_quotients_are_computed(nodes: list[NodeProto], element: int) -> None:
    assert use_of(nodes, element) == ""


def test_a_batch_normalization_leaves_out_no_output_before_its_last() -> None:
    skipping = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "", "r"], training_mode=1)
    assert use_of([skipping]).startswith("a BatchNormalization that leaves out an output")
