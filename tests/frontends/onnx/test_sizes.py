"""Shapes that are computed from shapes with unknown dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import NodeProto
from onnx.helper import make_node

from nnhal.extensions.onnx import OPERATION
from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, onnx_model, operations, random, values

CONSTANTS: dict[str, Any] = {
    "zero": np.array(0),
    "first": np.array([0]),
    "second": np.array([1]),
    "rest": np.array([-1]),
}


def with_target(*nodes: NodeProto) -> list[NodeProto]:
    """Reshape of x to a target that begins with what the nodes compute from its shape."""
    return [
        make_node("Shape", ["x"], ["s"]),
        *nodes,
        make_node("Concat", ["head", "rest"], ["t"], axis=0),
        make_node("Reshape", ["x", "t"], ["y"]),
    ]


@pytest.mark.parametrize(
    "nodes",
    [
        [make_node("Gather", ["s", "zero"], ["g"]), make_node("Unsqueeze", ["g", "first"], ["head"])],
        [make_node("Slice", ["s", "first", "second"], ["head"])],
        [make_node("Cast", ["s"], ["c"], to=7), make_node("Gather", ["c", "first"], ["head"])],
    ],
)
def test_a_batch_of_unknown_size_divides_out(nodes: list[NodeProto]) -> None:
    model = onnx_model(with_target(*nodes), {"x": ["N", 3, 4]}, ["y"], CONSTANTS)
    imported = check(model, {"x": random(2, 3, 4)})
    assert operations(imported) == ["RESHAPE"]
    assert values(imported, 0, 1) == [-1, 12]


def test_what_follows_knows_the_shape() -> None:
    gather = make_node("Gather", ["s", "first"], ["head"])
    nodes = [*with_target(gather), make_node("Transpose", ["y"], ["z"]), make_node("Flatten", ["z"], ["f"], axis=0)]
    imported = check(onnx_model(nodes, {"x": ["N", 3, 4]}, ["f"], CONSTANTS), {"x": random(2, 3, 4)})
    assert operations(imported) == ["RESHAPE", "TRANSPOSE", "RESHAPE"]


def test_two_unknown_dimensions_are_too_many() -> None:
    model = onnx_model(
        [make_node("Shape", ["x"], ["s"]), make_node("Reshape", ["z", "s"], ["y"])],
        {"x": ["N", "M"], "z": ["N", "M"]},
        ["y"],
    )
    with pytest.raises(UnsupportedNode):
        import_onnx(model, extension=False)
    check(model, {"x": random(2, 3), "z": random(2, 3)}, shapes={"x": (2, 3), "z": (2, 3)})


@pytest.mark.parametrize("kind", ["Reshape", "Squeeze", "Unsqueeze"])
def test_a_shape_that_comes_with_a_run_is_not_inferred(kind: str) -> None:
    model = onnx_model([make_node(kind, ["x", "n"], ["y"])], {"x": [1], "n": [1]}, ["y"], element_types={"n": np.int64})
    model.graph.output[0].type.tensor_type.shape.dim.add()  # exporters declare the rank
    assert [operation.type for operation in import_onnx(model).model.main.operations] == [OPERATION]
    with pytest.raises(UnsupportedNode, match="'n' is computed at run time"):
        import_onnx(model, extension=False)
