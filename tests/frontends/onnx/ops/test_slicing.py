"""Slice and Split against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto
from onnx.helper import make_node

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, onnx_model, operations, random

X = {"x": random(4, 5, 6)}
FAR = np.iinfo(np.int64).max


def sliced(
    shape: list[Any], parameters: dict[str, list[int]], element_type: type[np.generic] = np.float32
) -> ModelProto:
    names = [name if name in parameters else "" for name in ("starts", "ends", "axes", "steps")]
    constants = {name: np.array(values) for name, values in parameters.items()}
    return onnx_model([make_node("Slice", ["x", *names], ["y"])], {"x": shape}, ["y"], constants, 13, element_type)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"starts": [1, 0, 2], "ends": [3, 5, 5]}, "SLICE"),
        ({"starts": [-3], "ends": [-1], "axes": [1]}, "SLICE"),
        ({"starts": [2], "ends": [FAR], "axes": [-1]}, "SLICE"),
        ({"starts": [0], "ends": [FAR], "axes": [1], "steps": [2]}, "STRIDED_SLICE"),
        ({"starts": [FAR], "ends": [-FAR], "axes": [1], "steps": [-1]}, "STRIDED_SLICE"),
        ({"starts": [-1, 3], "ends": [-9, 0], "axes": [2, 0], "steps": [-2, -1]}, "STRIDED_SLICE"),
        ({"starts": [0], "ends": [FAR], "axes": [1]}, "RESHAPE"),
    ],
)
def test_slices(parameters: dict[str, list[int]], expected: str) -> None:
    assert operations(check(sliced([4, 5, 6], parameters), X)) == [expected]


def test_slices_of_old_opsets_have_attributes() -> None:
    node = make_node("Slice", ["x"], ["y"], starts=[0, -2], ends=[2, 9], axes=[0, 2])
    assert operations(check(onnx_model([node], {"x": [4, 5, 6]}, ["y"], opset=9), X)) == ["SLICE"]


def test_a_batch_of_unknown_size_stays_whole() -> None:
    assert operations(check(sliced(["N", 5, 6], {"starts": [1], "ends": [4], "axes": [1]}), X)) == ["SLICE"]


@pytest.mark.parametrize(("begin", "end"), [(-2, FAR), (1, -1), (0, 2)])
def test_unknown_dimensions_are_cut_from_either_end(begin: int, end: int) -> None:
    assert operations(check(sliced([4, "L", 6], {"starts": [begin], "ends": [end], "axes": [1]}), X)) == [
        "STRIDED_SLICE"
    ]


def test_strides_of_integers_are_gathered() -> None:
    model = sliced([4, 5], {"starts": [3, 0], "ends": [-9, 5], "steps": [-2, 2]}, np.int32)
    values = {"x": np.arange(20, dtype=np.int32).reshape(4, 5)}
    assert operations(check(model, values)) == ["GATHER", "GATHER"]


def test_bounds_that_are_computed_at_run_time_are_refused() -> None:
    model = onnx_model(
        [make_node("Slice", ["x", "s", "e"], ["y"])], {"x": [4], "s": [1], "e": [1]}, ["y"], element_type=np.int64
    )
    with pytest.raises(UnsupportedNode, match="its starts are computed at run time"):
        import_onnx(model, extension=False)


def test_equal_parts() -> None:
    old = onnx_model([make_node("Split", ["x"], ["a", "b"], axis=0)], {"x": [4, 5, 6]}, ["a", "b"], opset=11)
    assert operations(check(old, X)) == ["SPLIT"]
    node = make_node("Split", ["x"], ["a", "b", "c"], axis=-1, num_outputs=3)
    assert operations(check(onnx_model([node], {"x": ["N", 5, 6]}, ["a", "b", "c"], opset=18), X)) == ["SPLIT"]


def test_a_part_that_nothing_reads() -> None:
    nodes = [make_node("Split", ["x"], ["a", "b"], axis=0, num_outputs=2), make_node("Relu", ["b"], ["y"])]
    assert operations(check(onnx_model(nodes, {"x": [4, 5, 6]}, ["y"]), X)) == ["SPLIT", "RELU"]


@pytest.mark.parametrize("opset", [11, 13])
def test_unequal_parts_are_slices(opset: int) -> None:
    if opset == 11:
        node, constants = make_node("Split", ["x"], ["a", "b"], axis=1, split=[1, 4]), {}
    else:
        node, constants = make_node("Split", ["x", "s"], ["a", "b"], axis=1), {"s": np.array([1, 4])}
    model = onnx_model([node], {"x": ["N", 5, 6]}, ["a", "b"], constants, opset)
    assert operations(check(model, X)) == ["SLICE", "SLICE"]


def test_a_last_part_may_be_shorter() -> None:
    node = make_node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2)
    assert operations(check(onnx_model([node], {"x": [4, 5, 6]}, ["a", "b"], opset=18), X)) == ["SLICE", "SLICE"]
