"""Element-wise operators against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.helper import make_node

from nnhal_frontends.errors import UnsupportedNode
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import check, onnx_model, operations, random

X = {"x": random(2, 5, 3, 4)}


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div"])
def test_arithmetic_broadcasts(op_type: str) -> None:
    model = onnx_model([make_node(op_type, ["x", "z"], ["y"])], {"x": ["N", 3, 4], "z": [3, 1]}, ["y"])
    assert operations(check(model, {"x": random(2, 3, 4), "z": random(3, 1, seed=1)})) == [op_type.upper()]
    model = onnx_model([make_node(op_type, ["k", "x"], ["y"])], {"x": [2, 3]}, ["y"], {"k": np.float32(1.5)}, opset=7)
    assert operations(check(model, {"x": random(2, 3)})) == [op_type.upper()]


def test_integer_division_is_refused_since_it_rounds_otherwise() -> None:
    model = onnx_model([make_node("Div", ["x", "z"], ["y"])], {"x": [2], "z": [2]}, ["y"], element_type=np.int32)
    with pytest.raises(UnsupportedNode, match="rounds towards zero"):
        import_onnx(model, extension=False)


def test_plain_bytes_are_refused_since_they_wrap_around() -> None:
    model = onnx_model([make_node("Add", ["x", "z"], ["y"])], {"x": [2], "z": [2]}, ["y"], element_type=np.uint8)
    with pytest.raises(UnsupportedNode, match="plain uint8, which ONNX wraps around"):
        import_onnx(model, extension=False)


@pytest.mark.parametrize("opset", [7, 9, 15])
def test_batch_normalization_alone(opset: int) -> None:
    constants = {"s": random(5), "b": random(5, seed=1), "m": random(5, seed=2), "v": random(5, seed=3, low=0.1)}
    nodes = [
        make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["n"], epsilon=1e-3),
        make_node("Relu", ["n"], ["y"]),
    ]
    model = onnx_model(nodes, {"x": ["N", 5, 3, 4]}, ["y"], constants, opset)
    assert operations(check(model, X)) == ["MUL", "ADD"]


@pytest.mark.parametrize(("op_type", "operation"), [("Relu", "RELU"), ("Sigmoid", "LOGISTIC"), ("Tanh", "TANH")])
def test_functions_of_one_value(op_type: str, operation: str) -> None:
    assert operations(check(onnx_model([make_node(op_type, ["x"], ["y"])], {"x": [2, 5, 3, 4]}, ["y"]), X)) == [
        operation
    ]


@pytest.mark.parametrize(
    ("opset", "attributes", "expected"),
    [
        (7, {"min": 0.0, "max": 6.0}, ["RELU6"]),
        (10, {"min": -1.0, "max": 1.0}, ["RELU1"]),
        (10, {"min": 0.0}, ["RELU"]),
        (10, {"min": -0.5, "max": 0.7}, ["MAXIMUM", "MINIMUM"]),
        (10, {"max": 0.7}, ["MINIMUM"]),
        (10, {}, ["RESHAPE"]),
    ],
)
def test_clip_with_bounds_as_attributes_and_as_inputs(
    opset: int, attributes: dict[str, Any], expected: list[str]
) -> None:
    model = onnx_model([make_node("Clip", ["x"], ["y"], **attributes)], {"x": [2, 5, 3, 4]}, ["y"], opset=opset)
    assert operations(check(model, X)) == expected
    constants = {name: np.float32(value) for name, value in attributes.items()}
    inputs = ["x", *(name if name in attributes else "" for name in ("min", "max"))]
    model = onnx_model([make_node("Clip", inputs, ["y"])], {"x": [2, 5, 3, 4]}, ["y"], constants)
    assert operations(check(model, X)) == expected


@pytest.mark.parametrize("element_type", [np.int32, np.int64, np.int8])
def test_clip_of_integers(element_type: type[np.generic]) -> None:
    model = onnx_model(
        [make_node("Clip", ["x", "low"], ["y"])],
        {"x": [3]},
        ["y"],
        {"low": np.array(0, element_type)},
        13,
        element_type,
    )
    expected = ["RELU"] if element_type is np.int8 else ["MAXIMUM"]
    assert operations(check(model, {"x": np.array([-3, 0, 3], element_type)})) == expected


def test_bounds_of_more_than_32_bits_are_refused() -> None:
    model = onnx_model(
        [make_node("Clip", ["x", "low"], ["y"])], {"x": [3]}, ["y"], {"low": np.array(1 << 40)}, 13, np.int64
    )
    with pytest.raises(UnsupportedNode, match="64-bit values from 1099511627776"):
        import_onnx(model, extension=False)


def test_clip_with_a_bound_computed_at_run_time() -> None:
    model = onnx_model([make_node("Clip", ["x", "low"], ["y"])], {"x": [3], "low": []}, ["y"])
    check(model, {"x": random(3), "low": np.array(0.1, np.float32)})


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize(
    ("opset", "attributes"),
    [(13, {"axis": 1}), (13, {}), (11, {}), (11, {"axis": 3}), (11, {"axis": 2}), (12, {"axis": -1})],
)
def test_softmax_of_old_and_new_opsets(op_type: str, opset: int, attributes: dict[str, Any]) -> None:
    model = onnx_model([make_node(op_type, ["x"], ["y"], **attributes)], {"x": [2, 5, 3, 4]}, ["y"], opset=opset)
    check(model, X)


def test_old_softmax_of_vectors_is_one_operation() -> None:
    model = onnx_model([make_node("Softmax", ["x"], ["y"])], {"x": ["N", 5, 1, 1]}, ["y"], opset=11)
    assert operations(check(model, {"x": random(2, 5, 1, 1)})) == ["SOFTMAX"]


@pytest.mark.parametrize("exponent", [np.float32(2), np.array([2, 3, 0.5], np.float32), np.array(3, np.int64)])
def test_powers(exponent: Any) -> None:
    model = onnx_model([make_node("Pow", ["x", "e"], ["y"])], {"x": ["N", 3]}, ["y"], {"e": exponent}, opset=13)
    assert operations(check(model, {"x": random(2, 3, low=0.1)})) == ["POW"]


def test_powers_that_are_computed_at_run_time() -> None:
    model = onnx_model([make_node("Pow", ["x", "e"], ["y"])], {"x": [3], "e": [2, 3]}, ["y"], opset=7)
    assert operations(check(model, {"x": random(3, low=0.1), "e": random(2, 3)})) == ["POW"]


def test_powers_of_integers_are_refused() -> None:
    model = onnx_model([make_node("Pow", ["x", "e"], ["y"])], {"x": [3]}, ["y"], {"e": np.float32(2)}, 13, np.int32)
    with pytest.raises(UnsupportedNode, match="a power of int32; supported: floats"):
        import_onnx(model, extension=False)


@pytest.mark.parametrize("element_type", [np.int32, np.int64])
def test_remainders_have_the_sign_of_the_divisor(element_type: type[np.generic]) -> None:
    divisor, node = np.array([2, -3, 8, -2, 3, 5], element_type), make_node("Mod", ["x", "z"], ["y"])
    model = onnx_model([node], {"x": [6]}, ["y"], {"z": divisor}, element_type=element_type)
    values = {"x": np.array([-4, 7, 5, 4, -7, 8], element_type)}
    assert operations(check(model, values)) == ["DIV", "MUL", "SUB"]
    computed = onnx_model([node], {"x": [6], "z": [6]}, ["y"], element_type=element_type)
    with pytest.raises(UnsupportedNode, match="a divisor that is computed, or 0"):
        import_onnx(computed, extension=False)


def test_remainders_of_floats_are_refused() -> None:
    model = onnx_model([make_node("Mod", ["x", "z"], ["y"], fmod=1)], {"x": [2], "z": [2]}, ["y"])
    with pytest.raises(UnsupportedNode, match="fmod 1 of float32"):
        import_onnx(model, extension=False)
