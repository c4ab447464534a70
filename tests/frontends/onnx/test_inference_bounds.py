"""A model whose vectors are too long to be propagated as sizes is read without that, in little memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnhal_frontends.onnx.graph import read_graph
from tests.support.process_limits import memory_limit

SPARE = 512 << 20
CAST = helper.make_node("Cast", ["e"], ["y"], to=TensorProto.FLOAT)
LONG = 1 << 40


def model(nodes: Sequence[onnx.NodeProto], **constants: int | Sequence[int]) -> onnx.ModelProto:
    """A model from x, a vector of 2^20 by 2^20 elements as a matrix, to y."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1 << 20, 1 << 20])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
        [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(
    "given",
    [
        model([helper.make_node("Range", ["a", "b", "c"], ["e"]), CAST], a=0, b=LONG, c=1),
        model([helper.make_node("Range", ["a", "b", "c"], ["e"]), CAST], a=-LONG, b=0, c=1),
        model([helper.make_node("Reshape", ["x", "t"], ["e"]), CAST], t=[-1]),
        model([helper.make_node("ConstantOfShape", ["t"], ["e"]), CAST], t=[LONG]),
        model(
            [
                helper.make_node("Shape", ["x"], ["s"]),
                helper.make_node("Slice", ["s", "z", "o"], ["r"]),
                helper.make_node("Mul", ["r", "t"], ["p"]),
                helper.make_node("ConstantOfShape", ["p"], ["e"]),
                CAST,
            ],
            z=[0],
            o=[1],
            t=[1 << 20],
        ),
    ],
    ids=["Range", "Range from below", "Reshape", "ConstantOfShape", "of a shape's product"],
)
def test_long_vectors_are_not_propagated(given: onnx.ModelProto) -> None:
    with memory_limit(SPARE):
        graph = read_graph(given)
    assert [node.op_type for node in graph.nodes][-1] == "Cast"


def test_short_sizes_are_propagated_beside_a_long_vector() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Concat", ["s", "one"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ]
    graph = read_graph(model(nodes, one=[1], a=[LONG]))
    assert graph.shape("y") == (1 << 20, 1 << 20, 1)


def test_a_chain_of_products_has_small_bounds() -> None:
    """As that of a network with SiLU after each convolution."""
    names = ["x", *(f"p{number}" for number in range(80)), "y"]
    nodes = [helper.make_node("Mul", [read, read], [written]) for read, written in pairwise(names)]
    with memory_limit(SPARE):
        graph = read_graph(model(nodes, one=[2]))
    assert graph.shape("y") == (1 << 20, 1 << 20)
