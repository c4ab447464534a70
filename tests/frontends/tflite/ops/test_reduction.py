"""Reductions along axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.tflite_files import Spec, booleans, floats, int8, int32, uint8
from tests.support.tflite_operators import numbers, one

CODES = {
    "MEAN": "MEAN",
    "SUM": "REDUCE_SUM",
    "REDUCE_PROD": "REDUCE_PROD",
    "REDUCE_MAX": "REDUCE_MAX",
    "REDUCE_MIN": "REDUCE_MIN",
}
IN_FLOATS = ["DEQUANTIZE", "{}", "QUANTIZE"]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    ("axes", "keep", "output"),
    [([1], False, (2, 4)), ([0, -1], True, (1, 3, 1)), ([0, 1, 2], False, ()), (1, False, (2, 4))],
)
def test_floats_are_reduced(code: str, axes: Any, keep: bool, output: tuple[int, ...]) -> None:
    node = one(code, [floats(2, 3, 4), numbers(axes)], floats(*output), ("ReducerOptions", {"KeepDims": keep}))
    assert node.check() == [CODES[code]]


@pytest.mark.parametrize("code", ["MEAN", "REDUCE_MAX", "REDUCE_MIN"])
@pytest.mark.parametrize("kind", [int8, uint8])
def test_quantised_values_of_one_scale_are_reduced(code: str, kind: Any) -> None:
    assert one(code, [kind(2, 3, 4), numbers([1])], kind(2, 4)).check() == [code]


@pytest.mark.parametrize(("code", "expected"), [("MEAN", "MEAN"), ("SUM", "REDUCE_SUM")])
def test_another_scale_is_reached_in_floats(code: str, expected: str) -> None:
    # LiteRT's reference kernel for quantised sums is wrong, so the optimised one is used.
    node = one(code, [int8(1, 7, 7, 8), numbers([1, 2])], int8(1, 8, scale=0.7, zero_point=-5))
    assert node.check(optimised=True) == [name.format(expected) for name in IN_FLOATS]


@pytest.mark.parametrize("code", ["REDUCE_ANY", "REDUCE_ALL"])
def test_booleans_are_reduced(code: str) -> None:
    assert one(code, [booleans(2, 3, 4), numbers([1])], booleans(2, 4)).check() == [code]


@pytest.mark.parametrize(("code", "expected"), [("ARG_MAX", "ARGMAX"), ("ARG_MIN", "ARGMIN")])
@pytest.mark.parametrize(
    ("given", "axis", "output"),
    [
        (floats(2, 3, 4), 1, int32(2, 4)),
        (int8(2, 9), -1, Spec([2], np.int64)),
        (floats(4), 0, int32()),
    ],
)
def test_the_place_of_an_extremum(code: str, expected: str, given: Spec, axis: int, output: Spec) -> None:
    kind = {"ARG_MAX": "ArgMaxOptions", "ARG_MIN": "ArgMinOptions"}[code]
    wanted = 4 if output.element_type == np.int64 else 2
    assert one(code, [given, numbers(axis)], output, (kind, {"OutputType": wanted})).check() == [expected]
