"""Max, Min, Sum and Mean against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.helper import make_node

from tests.support.onnx_models import check, onnx_model, operations, random

SHAPES = {"a": [2, 3], "b": [3], "c": [2, 1]}
VALUES = {"a": random(2, 3), "b": random(3, seed=1), "c": random(2, 1, seed=2)}


@pytest.mark.parametrize(
    ("op_type", "expected"),
    [
        ("Max", ["MAXIMUM", "MAXIMUM"]),
        ("Min", ["MINIMUM", "MINIMUM"]),
        ("Sum", ["ADD", "ADD"]),
        ("Mean", ["ADD", "ADD", "DIV"]),
    ],
)
@pytest.mark.parametrize("opset", [8, 13])
def test_several_tensors_broadcast(op_type: str, expected: list[str], opset: int) -> None:
    model = onnx_model([make_node(op_type, ["a", "b", "c"], ["y"])], SHAPES, ["y"], opset=opset)
    assert operations(check(model, VALUES)) == expected


@pytest.mark.parametrize(("op_type", "expected"), [("Max", "RESHAPE"), ("Mean", "DIV")])
def test_a_single_tensor(op_type: str, expected: str) -> None:
    model = onnx_model([make_node(op_type, ["a"], ["y"])], {"a": [2, 3]}, ["y"])
    assert operations(check(model, {"a": VALUES["a"]})) == [expected]


def test_a_constant_among_them() -> None:
    model = onnx_model([make_node("Max", ["x", "k"], ["y"])], {"x": [3]}, ["y"], {"k": np.float32(0.25)})
    assert operations(check(model, {"x": random(3)})) == ["MAXIMUM"]


@pytest.mark.parametrize("element_type", [np.int32, np.int64, np.uint8, np.int8])
def test_extremes_of_integers(element_type: type[np.generic]) -> None:
    model = onnx_model([make_node("Min", ["a", "b"], ["y"])], {"a": [3], "b": [3]}, ["y"], element_type=element_type)
    values = {"a": np.array([1, 2, 90]).astype(element_type), "b": np.array([100, 0, 30]).astype(element_type)}
    assert operations(check(model, values)) == ["MINIMUM"]
