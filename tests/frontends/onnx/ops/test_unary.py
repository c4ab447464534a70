"""Functions of one value against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, onnx_model, operations, random

SPECIAL = {"x": np.array([-np.inf, -1.5, 0, np.nan, 2, np.inf], np.float32)}


@pytest.mark.parametrize(
    ("op_type", "expected"),
    [
        ("Abs", ["ABS"]),
        ("Ceil", ["NEG", "FLOOR", "NEG"]),
        ("Exp", ["EXP"]),
        ("Floor", ["FLOOR"]),
        ("Log", ["LOG"]),
        ("Neg", ["NEG"]),
        ("Reciprocal", ["DIV"]),
        ("Sin", ["SIN"]),
        ("Softsign", ["ABS", "ADD", "DIV"]),
        ("Sqrt", ["SQRT"]),
    ],
)
def test_functions_of_one_value(op_type: str, expected: list[str]) -> None:
    positive = op_type in ("Log", "Sqrt")
    for element_type, tolerance in ((np.float32, 1e-5), (np.float16, 2e-3)):
        model = onnx_model([make_node(op_type, ["x"], ["y"])], {"x": ["N", 5]}, ["y"], element_type=element_type)
        values = {"x": random(3, 5, low=0.1 if positive else -2.0).astype(element_type)}
        assert operations(check(model, values, tolerance)) == expected


@pytest.mark.parametrize("op_type", ["Abs", "Neg"])
def test_signs_of_integers(op_type: str) -> None:
    model = onnx_model([make_node(op_type, ["x"], ["y"])], {"x": [3]}, ["y"], element_type=np.int32)
    assert operations(check(model, {"x": np.array([-5, 0, 7], np.int32)})) == [op_type.upper()]


def test_absolute_bytes_are_refused_in_the_words_of_the_operation() -> None:
    model = onnx_model([make_node("Abs", ["x"], ["y"], "size")], {"x": [3]}, ["y"], element_type=np.int8)
    with pytest.raises(UnsupportedNode, match=r"node 'size' \(Abs\): ABS: input 0 .* TENSOR_QUANT8_ASYMM_SIGNED"):
        import_onnx(model, extension=False)


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("IsNaN", {}),
        ("IsInf", {}),
        ("IsInf", {"detect_negative": 0}),
        ("IsInf", {"detect_positive": 0}),
        ("IsInf", {"detect_positive": 0, "detect_negative": 0}),
    ],
)
def test_what_is_not_a_number(op_type: str, attributes: dict[str, Any]) -> None:
    check(onnx_model([make_node(op_type, ["x"], ["y"], **attributes)], {"x": [6]}, ["y"]), SPECIAL)


def test_not_becomes_logical_not() -> None:
    model = onnx_model([make_node("Not", ["x"], ["y"])], {"x": [2]}, ["y"], element_type=np.bool_)
    assert operations(check(model, {"x": np.array([True, False])})) == ["LOGICAL_NOT"]
