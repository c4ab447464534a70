"""Gemm and MatMul compute what ONNX Runtime computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.flow_graphs import operators
from tests.support.onnx_flow import checked, node, one
from tests.support.onnx_models import onnx_model, random

C_SHAPES: list[tuple[int, ...] | None] = [None, (5,), (1, 5), (1,), (), (2, 1), (2, 5), (1, 1)]


@pytest.mark.parametrize("c_shape", C_SHAPES)
@pytest.mark.parametrize("attributes", [{}, {"transB": 1}, {"transA": 1, "alpha": 0.5, "beta": 2.0}, {"beta": 0.0}])
def test_gemm_of_constants(c_shape: tuple[int, ...] | None, attributes: dict[str, Any]) -> None:
    x = (3, 2) if attributes.get("transA") else (2, 3)
    w = (5, 3) if attributes.get("transB") else (3, 5)
    graph = one("Gemm", *x, constants=[random(*w), *([] if c_shape is None else [random(*c_shape)])], **attributes)
    words = ["transpose"] * bool(attributes.get("transA")) + ["dense"]
    if c_shape is not None and attributes.get("beta") != 0:
        words.append("add" if c_shape in ((2, 1), (2, 5)) else "bias_add")
    assert operators(graph) == words


@pytest.mark.parametrize(
    "attributes", [{}, {"transB": 1}, {"transA": 1, "alpha": 0.5, "beta": 2.0}, {"alpha": 3.0, "beta": 0.0}]
)
def test_gemm_of_computed_factors(attributes: dict[str, Any]) -> None:
    shapes = {
        "x": (3, 2) if attributes.get("transA") else (2, 3),
        "w": (5, 3) if attributes.get("transB") else (3, 5),
        "c": (5,),
    }
    graph = checked(onnx_model([node("Gemm", ["x", "w", "c"], ["y"], **attributes)], shapes, ["y"]))
    assert "dense" in operators(graph)


def test_two_nodes_transpose_the_same_matrix_in_the_same_way() -> None:
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["z", "w"], ["b"])]
    graph = checked(onnx_model(nodes, {"x": (2, 3), "z": (4, 3)}, ["a", "b"], {"w": random(3, 5)}))
    one, other = graph.constants.values()
    np.testing.assert_array_equal(one, other)
