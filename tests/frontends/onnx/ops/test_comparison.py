"""Comparisons, logic and Where against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import by_cpu_ref, check, onnx_model, operations, random

MASK = np.array([[True], [False]])


@pytest.mark.parametrize(
    ("op_type", "opset", "expected"),
    [
        ("Equal", 11, "EQUAL"),
        ("Less", 9, "LESS"),
        ("Greater", 9, "GREATER"),
        ("LessOrEqual", 12, "LESS_EQUAL"),
        ("GreaterOrEqual", 16, "GREATER_EQUAL"),
    ],
)
@pytest.mark.parametrize("element_type", [np.float32, np.int32, np.int64])
def test_comparisons_broadcast(op_type: str, opset: int, expected: str, element_type: type[np.generic]) -> None:
    model = onnx_model(
        [make_node(op_type, ["a", "b"], ["y"])], {"a": ["N", 3], "b": [3]}, ["y"], None, opset, element_type
    )
    values = {"a": np.array([[1, 2, 3], [3, 2, 1]], element_type), "b": np.array([2, 2, 2], element_type)}
    assert operations(check(model, values)) == [expected]


@pytest.mark.parametrize(
    ("op_type", "expected"), [("And", "LOGICAL_AND"), ("Or", "LOGICAL_OR"), ("Xor", "NOT_EQUAL"), ("Equal", "EQUAL")]
)
def test_logic_becomes_the_operation_of_its_name(op_type: str, expected: str) -> None:
    model = onnx_model([make_node(op_type, ["a", "b"], ["y"])], {"a": [2, 1], "b": [2]}, ["y"], element_type=np.bool_)
    assert operations(check(model, {"a": MASK, "b": np.array([True, False])})) == [expected]


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (([2, 3], [2, 3], [2, 3]), ["SELECT"]),
        (([2, 1], [2, 3], [3]), ["LOGICAL_OR", "RESHAPE", "TILE", "SELECT"]),
        (([2, 1], [4, 2, 3], [1]), ["LOGICAL_OR", "RESHAPE", "TILE", "SELECT"]),
    ],
)
def test_where_repeats_what_select_does_not(shapes: tuple[list[int], ...], expected: list[str]) -> None:
    inputs = dict(zip(("c", "a", "b"), shapes, strict=True))
    model = onnx_model([make_node("Where", ["c", "a", "b"], ["y"])], inputs, ["y"], element_types={"c": np.bool_})
    values = {"c": random(*shapes[0]) > 0, "a": random(*shapes[1]), "b": random(*shapes[2])}
    assert operations(check(model, values)) == expected


@pytest.mark.parametrize("element_type", [np.int32, np.float16, np.float32])
def test_where_with_a_constant_needs_no_repetition(element_type: Any) -> None:
    model = onnx_model(
        [make_node("Where", ["c", "a", "k"], ["y"])],
        {"c": [2, 3], "a": [2, 3]},
        ["y"],
        {"k": element_type(-9)},
        element_type=element_type,
        element_types={"c": np.bool_},
    )
    values = {"c": random(2, 3) > 0, "a": random(2, 3).astype(element_type)}
    assert operations(check(model, values, tolerance=1e-3)) == ["SELECT"]


def test_where_of_truths_is_logic() -> None:
    model = onnx_model(
        [make_node("Where", ["c", "a", "b"], ["y"])], {"c": [2, 1], "a": [2], "b": [1]}, ["y"], element_type=np.bool_
    )
    imported = import_onnx(model, extension=False)
    assert operations(imported) == ["LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_AND", "LOGICAL_OR"]
    first, second = np.array([True, False]), np.array([True])
    (result,) = by_cpu_ref(imported, {"c": MASK, "a": first, "b": second})  # ONNX Runtime has no such kernel
    np.testing.assert_array_equal(result, np.where(MASK, first, second))


def test_where_along_an_unknown_dimension_is_refused() -> None:
    model = onnx_model(
        [make_node("Where", ["c", "a", "b"], ["y"])],
        {"c": ["N", 3], "a": ["N", 3], "b": [3]},
        ["y"],
        element_types={"c": np.bool_},
    )
    with pytest.raises(UnsupportedNode, match="lengths are unknown; supported: fixed shapes"):
        import_onnx(model, extension=False)
    values = {"c": random(2, 3) > 0, "a": random(2, 3), "b": random(3)}
    check(model, values, shapes={"c": (2, 3), "a": (2, 3)})
