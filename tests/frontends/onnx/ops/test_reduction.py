"""Reductions against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, onnx_model, operations, random

X = {"x": random(2, 3, 4, low=0.5)}
REDUCTIONS = {
    "ReduceL1": ["ABS", "REDUCE_SUM"],
    "ReduceL2": ["MUL", "REDUCE_SUM", "SQRT"],
    "ReduceLogSum": ["REDUCE_SUM", "LOG"],
    "ReduceMax": ["REDUCE_MAX"],
    "ReduceMean": ["MEAN"],
    "ReduceMin": ["REDUCE_MIN"],
    "ReduceProd": ["REDUCE_PROD"],
    "ReduceSum": ["REDUCE_SUM"],
    "ReduceSumSquare": ["MUL", "REDUCE_SUM"],
}


@pytest.mark.parametrize("op_type", REDUCTIONS)
@pytest.mark.parametrize(("axes", "keepdims"), [([1], 1), ([-1], 0), ([2, 0], 0), (None, 0), (None, 1)])
def test_axes_as_an_attribute_and_as_an_input(op_type: str, axes: list[int] | None, keepdims: int) -> None:
    attributes: dict[str, Any] = {"keepdims": keepdims} | ({} if axes is None else {"axes": axes})
    old = onnx_model([make_node(op_type, ["x"], ["y"], **attributes)], {"x": [2, 3, 4]}, ["y"], opset=11)
    assert operations(check(old, X)) == REDUCTIONS[op_type]
    inputs, constants = (["x"], {}) if axes is None else (["x", "a"], {"a": np.array(axes)})
    node = make_node(op_type, inputs, ["y"], keepdims=keepdims)
    assert operations(check(onnx_model([node], {"x": [2, 3, 4]}, ["y"], constants, 18), X)) == REDUCTIONS[op_type]


@pytest.mark.parametrize("op_type", REDUCTIONS)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_scalar_is_reduced_to_a_scalar(op_type: str, keepdims: int) -> None:
    node = make_node(op_type, ["x"], ["y"], keepdims=keepdims)
    imported = check(onnx_model([node], {"x": []}, ["y"], opset=18), {"x": np.array(3, np.float32)})
    assert imported.outputs[0].shape == ()


def test_no_axes_can_mean_no_reduction() -> None:
    node = make_node("ReduceSum", ["x"], ["y"], noop_with_empty_axes=1)
    assert operations(check(onnx_model([node], {"x": [2, 3, 4]}, ["y"]), X)) == ["RESHAPE"]
    node = make_node("ReduceL2", ["x"], ["y"], noop_with_empty_axes=1)
    with pytest.raises(UnsupportedNode, match="noop_with_empty_axes"):
        import_onnx(onnx_model([node], {"x": [2, 3, 4]}, ["y"]), extension=False)


@pytest.mark.parametrize(("op_type", "expected"), [("ReduceMax", "REDUCE_ANY"), ("ReduceMin", "REDUCE_ALL")])
def test_extremes_of_truths_are_logic(op_type: str, expected: str) -> None:
    node = make_node(op_type, ["x", "a"], ["y"], keepdims=0)
    model = onnx_model([node], {"x": [3, 2]}, ["y"], {"a": np.array([1])}, element_type=np.bool_)
    assert operations(check(model, {"x": np.array([[1, 1], [1, 0], [0, 0]], np.bool_)})) == [expected]


def test_sums_of_integers_are_refused_in_the_words_of_the_operation() -> None:
    model = onnx_model([make_node("ReduceSum", ["x"], ["y"], "total")], {"x": [3]}, ["y"], element_type=np.int32)
    with pytest.raises(UnsupportedNode, match=r"node 'total' \(ReduceSum\): REDUCE_SUM: input 0 .* TENSOR_INT32"):
        import_onnx(model, extension=False)


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("opset", [7, 13])
@pytest.mark.parametrize(("axis", "keepdims"), [(0, 1), (2, 0), (-2, 1)])
def test_where_the_extremes_are(op_type: str, opset: int, axis: int, keepdims: int) -> None:
    model = onnx_model(
        [make_node(op_type, ["x"], ["y"], axis=axis, keepdims=keepdims)], {"x": [2, 3, 4]}, ["y"], opset=opset
    )
    assert operations(check(model, {"x": np.rint(X["x"] * 2)})) == [op_type.upper(), "RESHAPE"][: 1 + keepdims]


def test_the_last_of_equal_elements_is_refused() -> None:
    node = make_node("ArgMax", ["x"], ["y"], select_last_index=1)
    with pytest.raises(UnsupportedNode, match="select_last_index"):
        import_onnx(onnx_model([node], {"x": [3]}, ["y"]), extension=False)
