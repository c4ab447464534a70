"""QUANTIZE, DEQUANTIZE and CAST."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.drawn_values import integers, random
from tests.support.onnx_models import operations
from tests.support.tflite_files import Spec, TfliteFile, booleans, floats, int8, int32, uint8
from tests.support.tflite_operators import check, one

BY_FLOATS = ["DEQUANTIZE", "QUANTIZE"]


@pytest.mark.parametrize(
    ("given", "output", "expected"),
    [
        (floats(2, 9), int8(2, 9, scale=0.02), ["QUANTIZE"]),
        (floats(2, 9), uint8(2, 9, scale=0.02), ["QUANTIZE"]),
        (int8(20, 9), int8(20, 9, scale=0.08, zero_point=-20), ["ADD"]),
        (uint8(20, 9), uint8(20, 9, scale=0.03), ["ADD"]),
        (uint8(20, 9), int8(20, 9), BY_FLOATS),
        (int8(20, 9), uint8(20, 9, scale=0.03), BY_FLOATS),
    ],
)
def test_values_are_quantised_and_change_their_scale(given: Spec, output: Spec, expected: list[str]) -> None:
    assert one("QUANTIZE", [given], output).check() == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [(int8(2, 9), ["DEQUANTIZE"]), (uint8(2, 9), ["DEQUANTIZE"]), (Spec([2, 9], np.float16), ["CAST"])],
)
def test_values_become_floats(given: Spec, expected: list[str]) -> None:
    assert one("DEQUANTIZE", [given], floats(2, 9)).check() == expected


@pytest.mark.parametrize(
    "weights",
    [
        (integers(4, 6), int8(4, 6)),
        (integers(4, 6), int8(4, 6, scale=[0.1, 0.2, 0.3, 0.4])),
        (random(4, 6), Spec([4, 6], np.float16)),
    ],
    ids=["int8", "int8 per channel", "float16"],
)
def test_constants_are_dequantised_on_import(weights: tuple[Any, Spec]) -> None:
    file = TfliteFile()
    x, stored = file.input("x", floats(2, 6)), file.constant(*weights)
    (reals,) = file.operator("DEQUANTIZE", [stored], {"reals": floats(4, 6)})
    (y,) = file.operator("FULLY_CONNECTED", [x, reals, -1], {"y": floats(2, 4)}, ("FullyConnectedOptions", {}))
    imported = check(file.build(y), {"x": random(2, 6)})
    assert operations(imported) == ["FULLY_CONNECTED"]
    assert imported.folded_nodes == ("DEQUANTIZE_0:reals",)


@pytest.mark.parametrize(
    ("given", "output", "expected"),
    [
        (floats(2, 3), int32(2, 3), "CAST"),
        (int32(2, 3), floats(2, 3), "CAST"),
        (int32(2, 3), Spec([2, 3], np.int64), "CAST"),
        (Spec([2, 3], np.uint8), floats(2, 3), "CAST"),
        (floats(2, 3), Spec([2, 3], np.float16), "CAST"),
        (booleans(2, 3), floats(2, 3), "SELECT"),
        (booleans(2, 3), int32(2, 3), "SELECT"),
        (floats(2, 3), booleans(2, 3), "NOT_EQUAL"),
        (int32(2, 3), booleans(2, 3), "NOT_EQUAL"),
    ],
)
def test_elements_change_their_type(given: Spec, output: Spec, expected: str) -> None:
    assert one("CAST", [given], output).check() == [expected]


def test_a_cast_that_the_hal_has_not_says_which_types_it_has() -> None:
    assert "expected TENSOR_QUANT8_ASYMM_SIGNED" in one("CAST", [Spec([2], np.int8)], floats(2)).refusal()


def test_integers_of_64_bits_that_may_be_large_are_not_the_hals() -> None:
    for number in (1, 1 << 40):
        node = one("ADD", [Spec([1], np.int64), np.array([number])], Spec([1], np.int64))
        assert "'x0' has integers of 64 bits, expected 32" in node.refusal()
