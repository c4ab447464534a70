"""Operators that move values, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, onnx_model, operations, random

X = {"x": random(1, 4, 3, 1)}


@pytest.mark.parametrize(
    ("op_type", "opset", "attributes", "more"),
    [
        ("Reshape", 13, {}, [0, -1]),
        ("Reshape", 14, {"allowzero": 1}, [3, 4]),
        ("Flatten", 9, {"axis": 2}, None),
        ("Flatten", 13, {"axis": 0}, None),
        ("Squeeze", 11, {"axes": [0]}, None),
        ("Squeeze", 13, {}, [-1]),
        ("Squeeze", 13, {}, None),
        ("Unsqueeze", 11, {"axes": [0]}, None),
        ("Unsqueeze", 13, {}, [0]),
    ],
)
def test_shapes_become_reshape(op_type: str, opset: int, attributes: dict[str, Any], more: list[int] | None) -> None:
    shape = [4, 3] if op_type == "Unsqueeze" else [1, 4, 3, 1]
    inputs, constants = (["x"], {}) if more is None else (["x", "k"], {"k": np.array(more)})
    model = onnx_model([make_node(op_type, inputs, ["y"], **attributes)], {"x": shape}, ["y"], constants, opset)
    assert operations(check(model, {"x": random(*shape)})) == ["RESHAPE"]


def test_a_batch_of_unknown_size_stays_unknown() -> None:
    model = onnx_model([make_node("Flatten", ["x"], ["y"])], {"x": ["N", 4, 3]}, ["y"])
    imported = check(model, {"x": random(2, 4, 3)})
    assert imported.inputs[0].shape == (0, 4, 3)
    assert imported.outputs[0].shape == (0, 12)
    assert imported.model.main.operands[imported.outputs[0].operand].dimensions == (0, 12)


def test_more_than_one_unknown_dimension_is_refused_with_a_way_out() -> None:
    model = onnx_model(
        [make_node("Unsqueeze", ["x", "a"], ["y"], "up")], {"x": ["N", "L"]}, ["y"], {"a": np.array([0])}
    )
    with pytest.raises(UnsupportedNode, match=r"more than one unknown dimension.*fixed shapes"):
        import_onnx(model, extension=False)
    check(model, {"x": random(2, 3)}, shapes={"x": (2, 3)})


def test_concat_counts_axes_from_the_end() -> None:
    node = make_node("Concat", ["x", "z", "k"], ["y"], axis=-1)
    model = onnx_model([node], {"x": [2, 3], "z": [2, 4]}, ["y"], {"k": random(2, 1)})
    assert operations(check(model, {"x": random(2, 3), "z": random(2, 4)})) == ["CONCATENATION"]


@pytest.mark.parametrize("attributes", [{"perm": [0, 2, 3, 1]}, {}])
def test_transpose_is_one_operation(attributes: dict[str, Any]) -> None:
    model = onnx_model([make_node("Transpose", ["x"], ["y"], **attributes)], {"x": [1, 4, 3, 1]}, ["y"])
    assert operations(check(model, X)) == ["TRANSPOSE"]


@pytest.mark.parametrize(
    ("mode", "value", "expected"),
    [("constant", 0.0, "PAD"), ("constant", 1.5, "PAD_V2"), ("reflect", 0.0, "MIRROR_PAD")],
)
def test_pad_becomes_the_operation_of_its_mode(mode: str, value: float, expected: str) -> None:
    constants = {"p": np.array([0, 0, 1, 0, 0, 0, 2, 0]), "v": np.float32(value)}
    model = onnx_model([make_node("Pad", ["x", "p", "v"], ["y"], mode=mode)], {"x": [1, 4, 3, 1]}, ["y"], constants)
    assert operations(check(model, X)) == [expected]


def test_pad_of_some_axes() -> None:
    constants = {"p": np.array([1, 2, 0, 1]), "a": np.array([2, -1])}
    model = onnx_model([make_node("Pad", ["x", "p", "", "a"], ["y"])], {"x": [1, 4, 3, 1]}, ["y"], constants)
    assert operations(check(model, X)) == ["PAD"]


def test_pad_with_the_edge_is_refused() -> None:
    node = make_node("Pad", ["x", "p"], ["y"], "border", mode="edge")
    model = onnx_model([node], {"x": [1, 4, 3, 1]}, ["y"], {"p": np.array([0, 0, 1, 0, 0, 0, 0, 0])})
    with pytest.raises(UnsupportedNode, match=r"'border' \(Pad\): mode edge; supported: mode constant"):
        import_onnx(model, extension=False)
