"""Functions of one or two tensors, element by element."""

from __future__ import annotations

from typing import Any

import pytest
from tflite import ActivationFunctionType

from tests.support.drawn_values import integers, random
from tests.support.tflite_files import booleans, floats, int8, int32, uint8
from tests.support.tflite_operators import numbers, one

RELU = {"FusedActivationFunction": ActivationFunctionType.RELU}
ARITHMETIC = [("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"), ("DIV", "DivOptions")]
COMPARISONS = ["EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"]


@pytest.mark.parametrize(("code", "kind"), ARITHMETIC)
@pytest.mark.parametrize("options", [RELU, {}])
def test_floats_broadcast(code: str, kind: str, options: dict[str, int]) -> None:
    assert one(code, [floats(2, 3, 4), floats(3, 1)], floats(2, 3, 4), (kind, options)).check() == [code]


@pytest.mark.parametrize(("code", "kind"), ARITHMETIC[:3])
def test_quantised_values_and_integers_broadcast(code: str, kind: str) -> None:
    quantised = [int8(2, 3, 4), int8(4, scale=0.03, zero_point=-4)]
    assert one(code, quantised, int8(2, 3, 4, scale=0.09, zero_point=0), (kind, RELU)).check() == [code]
    assert one(code, [int32(2, 3, 4), int32(3, 1)], int32(2, 3, 4)).check() == [code]


def test_what_the_hal_has_no_quantised_form_of_is_computed_in_floats() -> None:
    in_floats = ["DEQUANTIZE", "DEQUANTIZE", "{}", "QUANTIZE"]
    small = one("MUL", [int8(2, 3, scale=1.0), int8(3, scale=2.0)], int8(2, 3, scale=1.5))
    assert small.check() == [name.format("MUL") for name in in_floats]
    divisor = (numbers([20, 60, 90], "uint8"), uint8(3))
    quotient = one("DIV", [uint8(2, 3), divisor], uint8(2, 3, scale=0.1))
    assert quotient.check() == ["DEQUANTIZE", "DIV", "QUANTIZE"]
    assert one("DIV", [uint8(2, 3), uint8(3)], uint8(2, 3)).refusal() == "its divisor: 'x1' is computed at run time"
    zeros = (numbers([130] * 3, "uint8"), uint8(3))
    assert one("DIV", [uint8(2, 3), zeros], uint8(2, 3)).refusal() == "a divisor of 0"


def test_integers_are_divided_as_the_operator_says() -> None:
    divisors = numbers([[-2], [3], [1]])
    assert one("FLOOR_DIV", [int32(2, 3, 4), divisors], int32(2, 3, 4)).check() == ["DIV"]
    assert one("FLOOR_MOD", [int32(2, 3, 4), divisors], int32(2, 3, 4)).check() == ["DIV", "MUL", "SUB"]
    assert one("DIV", [int32(2, 3, 4), divisors], int32(2, 3, 4)).refusal() == "quotients of integers, truncated"
    for code in ("FLOOR_DIV", "FLOOR_MOD"):
        assert one(code, [int32(3), int32(3)], int32(3)).refusal() == "its divisor: 'x1' is computed at run time"
        assert one(code, [int32(3), numbers([1, 0, 2])], int32(3)).refusal() == "a divisor of 0"
    assert one("FLOOR_DIV", [floats(2, 3), random(3)], floats(2, 3)).check() == ["DIV", "FLOOR"]
    assert one("FLOOR_MOD", [floats(2, 3), random(3)], floats(2, 3)).refusal() == "a remainder of floats"


def test_sums_and_squares_are_made_of_arithmetic() -> None:
    assert one("ADD_N", [floats(2, 3)] * 3, floats(2, 3)).check() == ["ADD", "ADD"]
    assert one("SQUARE", [floats(2, 3)], floats(2, 3)).check() == ["MUL"]
    assert one("SQUARED_DIFFERENCE", [floats(2, 3), floats(3)], floats(2, 3)).check() == ["SUB", "MUL"]
    assert one("SQUARED_DIFFERENCE", [int8(2, 3), int8(3)], int8(2, 3, scale=0.5)).check() == [
        "DEQUANTIZE",
        "DEQUANTIZE",
        "SUB",
        "MUL",
        "QUANTIZE",
    ]


@pytest.mark.parametrize("code", ["MAXIMUM", "MINIMUM"])
@pytest.mark.parametrize("kind", [floats, int8, int32])
def test_the_larger_and_the_smaller_broadcast(code: str, kind: Any) -> None:
    assert one(code, [kind(2, 3), kind(3)], kind(2, 3)).check() == [code]


@pytest.mark.parametrize("code", COMPARISONS)
@pytest.mark.parametrize("kind", [floats, int8, int32])
def test_comparisons_give_booleans(code: str, kind: Any) -> None:
    assert one(code, [kind(2, 3), kind(3)], booleans(2, 3)).check() == [code]


def test_logic_is_of_booleans() -> None:
    for code in ("LOGICAL_AND", "LOGICAL_OR"):
        assert one(code, [booleans(2, 3), booleans(3)], booleans(2, 3)).check() == [code]
    assert one("LOGICAL_NOT", [booleans(2, 3)], booleans(2, 3)).check() == ["LOGICAL_NOT"]


def test_powers_and_slopes_broadcast() -> None:
    assert one("POW", [floats(2, 3), floats(3)], floats(2, 3), low=0.1).check() == ["POW"]
    assert one("PRELU", [floats(1, 2, 2, 3), random(1, 1, 3)], floats(1, 2, 2, 3)).check() == ["PRELU"]
    slopes = (integers(1, 1, 3), int8(1, 1, 3, scale=0.01, zero_point=2))
    assert one("PRELU", [int8(1, 2, 2, 3), slopes], int8(1, 2, 2, 3, scale=0.04)).check() == ["PRELU"]


@pytest.mark.parametrize(
    ("code", "low", "expected"),
    [
        ("ABS", -4, ["ABS"]),
        ("CEIL", -4, ["NEG", "FLOOR", "NEG"]),
        ("COS", -4, ["MUL", "SIN", "MUL", "MUL", "SUB"]),
        ("EXP", -4, ["EXP"]),
        ("FLOOR", -4, ["FLOOR"]),
        ("HARD_SWISH", -4, ["HARD_SWISH"]),
        ("LOG", 0.1, ["LOG"]),
        ("NEG", -4, ["NEG"]),
        ("RSQRT", 0.1, ["RSQRT"]),
        ("SIN", -4, ["SIN"]),
        ("SQRT", 0.1, ["SQRT"]),
    ],
)
def test_functions_of_floats(code: str, low: float, expected: list[str]) -> None:
    assert one(code, [floats(2, 6)], floats(2, 6), low=low, high=4).check() == expected


@pytest.mark.parametrize("code", ["ABS", "EXP", "LOG", "SQRT"])
def test_functions_of_quantised_values_are_computed_in_floats(code: str) -> None:
    node = one(code, [int8(3, 20, scale=0.02, zero_point=-128)], int8(3, 20, zero_point=0))
    assert node.check() == ["DEQUANTIZE", code, "QUANTIZE"]


def test_quantised_functions_that_the_hal_has() -> None:
    assert one("HARD_SWISH", [int8(3, 40)], int8(3, 40, scale=0.04)).check() == ["HARD_SWISH"]
    assert one("RSQRT", [int8(3, 20, scale=0.02, zero_point=-128)], int8(3, 20, zero_point=0)).check() == ["RSQRT"]


@pytest.mark.parametrize(
    ("code", "inputs", "output", "expected"),
    [
        ("SELECT", [booleans(2, 3), floats(2, 3), floats(2, 3)], floats(2, 3), ["SELECT"]),
        ("SELECT", [booleans(), floats(2, 3), floats(2, 3)], floats(2, 3), ["LOGICAL_OR", "SELECT"]),
        (
            "SELECT_V2",
            [booleans(2, 1), floats(2, 3), floats(3)],
            floats(2, 3),
            ["LOGICAL_OR", "RESHAPE", "TILE", "SELECT"],
        ),
        ("SELECT_V2", [booleans(2, 3), int8(2, 3), int8(1)], int8(2, 3), ["RESHAPE", "TILE", "SELECT"]),
    ],
)
def test_a_selection_is_of_one_shape(code: str, inputs: Any, output: Any, expected: list[str]) -> None:
    assert one(code, inputs, output).check() == expected


def test_a_mask_of_slices_is_refused() -> None:
    node = one("SELECT", [booleans(2), floats(2, 3), floats(2, 3)], floats(2, 3))
    assert node.refusal() == "a mask that selects slices"
