"""Expand and Tile against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, onnx_model, operations, random


@pytest.mark.parametrize(
    ("shape", "target", "expected"),
    [
        ([3, 1], [3, 4], ["TILE"]),
        ([3, 1], [2, 1, 4], ["RESHAPE", "TILE"]),
        ([3], [1], ["RESHAPE"]),
        ([1, 3], [2, 1, 3], ["RESHAPE", "TILE"]),
        (["N", 1], [1, 4], ["TILE"]),
    ],
)
def test_expand_becomes_what_its_shapes_take(shape: list[Any], target: list[int], expected: list[str]) -> None:
    model = onnx_model([make_node("Expand", ["x", "s"], ["y"])], {"x": shape}, ["y"], {"s": np.array(target)}, 13)
    fixed = [length if isinstance(length, int) else 2 for length in shape]
    assert operations(check(model, {"x": random(*fixed)})) == expected


def test_truths_are_expanded_by_logic() -> None:
    model = onnx_model(
        [make_node("Expand", ["x", "s"], ["y"])], {"x": [2, 1]}, ["y"], {"s": np.array([3, 1, 4])}, 13, np.bool_
    )
    assert operations(check(model, {"x": np.array([[True], [False]])})) == ["LOGICAL_OR"]


@pytest.mark.parametrize("element_type", [np.float32, np.float16, np.int32, np.uint8])
def test_tile_is_one_operation(element_type: type[np.generic]) -> None:
    node = make_node("Tile", ["x", "r"], ["y"])
    model = onnx_model([node], {"x": ["N", 3]}, ["y"], {"r": np.array([2, 3])}, element_type=element_type)
    assert operations(check(model, {"x": np.arange(6).reshape(2, 3).astype(element_type)})) == ["TILE"]


def test_repeats_that_are_computed_at_run_time_are_refused() -> None:
    model = onnx_model(
        [make_node("Tile", ["x", "r"], ["y"])], {"x": [2], "r": [1]}, ["y"], element_types={"r": np.int64}
    )
    with pytest.raises(UnsupportedNode, match="its repeats are computed at run time"):
        import_onnx(model, extension=False)
