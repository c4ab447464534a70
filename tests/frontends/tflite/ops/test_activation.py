"""Activations as operators of their own."""

from __future__ import annotations

from typing import Any

import pytest

from nnhal_cascade.graph.islands import UNARY
from tests.support.tflite_files import floats, int8, uint8
from tests.support.tflite_operators import one

IN_FLOATS = ["DEQUANTIZE", "{}", "QUANTIZE"]
RELUS = [("RELU", "RELU"), ("RELU6", "RELU6"), ("RELU_N1_TO_1", "RELU1")]


@pytest.mark.parametrize(("code", "expected"), [*RELUS, ("ELU", "ELU"), ("LOGISTIC", "LOGISTIC"), ("TANH", "TANH")])
def test_functions_of_floats(code: str, expected: str) -> None:
    assert one(code, [floats(3, 8)], floats(3, 8), low=-4, high=8).check() == [expected]


@pytest.mark.parametrize(("code", "expected"), RELUS)
@pytest.mark.parametrize("kind", [int8, uint8])
def test_another_scale_takes_an_addition_of_zero(code: str, expected: str, kind: Any) -> None:
    assert one(code, [kind(3, 40)], kind(3, 40)).check() == [expected]
    assert one(code, [kind(3, 40)], kind(3, 40, scale=0.04, zero_point=60)).check() == ["ADD"]


def test_relu_up_to_one_is_a_minimum() -> None:
    assert one("RELU_0_TO_1", [floats(3, 8)], floats(3, 8)).check() == ["RELU", "MINIMUM"]
    quantised = one("RELU_0_TO_1", [int8(3, 40)], int8(3, 40, scale=1 / 256, zero_point=-128))
    assert quantised.check() == ["DEQUANTIZE", "RELU", "MINIMUM", "QUANTIZE"]


@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("LOGISTIC", int8(3, 40, scale=1 / 256, zero_point=-128)),
        ("LOGISTIC", uint8(3, 40, scale=1 / 256, zero_point=0)),
        ("TANH", int8(3, 40, scale=1 / 128, zero_point=0)),
        ("TANH", uint8(3, 40, scale=1 / 128, zero_point=128)),
    ],
)
def test_results_in_the_scale_that_the_hal_fixes(code: str, output: Any) -> None:
    given = int8(3, 40) if output.element_type == int8().element_type else uint8(3, 40)
    assert one(code, [given], output).check() == [code]


def test_results_in_another_scale_and_elu_are_computed_in_floats() -> None:
    assert one("ELU", [int8(3, 40)], int8(3, 40)).check() == [name.format("ELU") for name in IN_FLOATS]


@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize("kind", [int8, uint8])
def test_gelu_of_8_bits_is_a_function_of_one_tensor(kind: Any, approximate: bool) -> None:
    given = [kind(4, 256)]
    names = one("GELU", given, kind(4, 256), ("GeluOptions", {"Approximate": approximate})).check()
    assert (names[0], names[-1]) == ("DEQUANTIZE", "QUANTIZE")
    assert set(names[1:-1]) <= {each.name for each in UNARY}


@pytest.mark.parametrize("slope", [0.1, -0.2, 0.0])
@pytest.mark.parametrize("kind", [floats, int8, uint8])
def test_a_leaky_relu_is_a_prelu_of_one_slope(slope: float, kind: Any) -> None:
    assert one("LEAKY_RELU", [kind(3, 40)], kind(3, 40), ("LeakyReluOptions", {"Alpha": slope})).check() == ["PRELU"]


def test_a_slope_that_is_no_number_is_refused() -> None:
    node = one("LEAKY_RELU", [int8(3)], int8(3), ("LeakyReluOptions", {"Alpha": float("nan")}))
    assert node.refusal() == "slope nan"
