"""Gather against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, onnx_model, operations, random

X = {"x": random(4, 5)}


@pytest.mark.parametrize(
    ("indices", "axis", "expected"),
    [
        ([0, 3, 3], 0, ["GATHER"]),
        ([[1, -1], [-5, 4]], 1, ["GATHER"]),
        (2, 0, ["GATHER", "RESHAPE"]),
        (-1, -1, ["GATHER", "RESHAPE"]),
    ],
)
def test_constant_indices(indices: Any, axis: int, expected: list[str]) -> None:
    node = make_node("Gather", ["x", "i"], ["y"], axis=axis)
    assert operations(check(onnx_model([node], {"x": [4, 5]}, ["y"], {"i": np.array(indices)}), X)) == expected


@pytest.mark.parametrize("element_type", [np.int32, np.int64])
def test_words_that_are_looked_up_may_be_counted_from_the_end(element_type: type[np.generic]) -> None:
    model = onnx_model(
        [make_node("Gather", ["table", "i"], ["y"])], {"i": ["N", 3]}, ["y"], {"table": X["x"]}, 13, element_type
    )
    values = {"i": np.array([[0, 3, -1], [-4, 2, 1]], element_type)}
    assert operations(check(model, values)) == ["LESS", "ADD", "SELECT", "GATHER"]


def test_an_unknown_dimension_is_refused_unless_indices_count_from_its_begin() -> None:
    node = make_node("Gather", ["x", "i"], ["y"])
    assert operations(check(onnx_model([node], {"x": ["N", 5]}, ["y"], {"i": np.array([0, 2])}), X)) == ["GATHER"]
    with pytest.raises(UnsupportedNode, match="axis of unknown length"):
        import_onnx(onnx_model([node], {"x": ["N", 5]}, ["y"], {"i": np.array([-1])}), extension=False)


def test_integers_are_gathered() -> None:
    node = make_node("Gather", ["x", "i"], ["y"], axis=1)
    model = onnx_model([node], {"x": [2, 3]}, ["y"], {"i": np.array([2, 0])}, element_type=np.int32)
    assert operations(check(model, {"x": np.arange(6, dtype=np.int32).reshape(2, 3)})) == ["GATHER"]
