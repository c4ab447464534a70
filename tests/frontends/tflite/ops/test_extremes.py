"""Infinities and NaN where LiteRT's kernels differ from IEEE 754, as docs/reference/tflite_coverage.md says."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal_frontends.tflite import import_tflite
from tests.support.onnx_models import by_cpu_ref
from tests.support.tflite_files import floats, int8, int32
from tests.support.tflite_operators import OneOperator, by_litert, numbers, one

MOST = float(np.finfo(np.float32).max)
INF, NAN = np.inf, np.nan
ONE = np.ones(1, np.float32)
STRIDES = {"Padding": 1, "StrideH": 1, "StrideW": 1}
IMAGE = floats(1, 1, 2, 1)
PIXELS = np.array([INF, -INF]).reshape(1, 1, 2, 1)


def answers(operator: OneOperator) -> tuple[list[float], list[float]]:
    """The elements that cpu_ref and LiteRT compute."""
    (got,) = by_cpu_ref(import_tflite(operator.file()), operator.arrays())
    (wanted,) = by_litert(operator.file(), operator.arrays())
    return got.reshape(-1).tolist(), wanted.reshape(-1).tolist()


@pytest.mark.parametrize(
    "operator",
    [
        *(
            one(code, [floats(2), ONE], floats(2), (options, {}), values={0: [INF, -INF]})
            for code, options in (
                ("ADD", "AddOptions"),
                ("SUB", "SubOptions"),
                ("MUL", "MulOptions"),
                ("DIV", "DivOptions"),
            )
        ),
        one("ADD_N", [floats(2)] * 2, floats(2), ("AddNOptions", {}), values={0: [INF, -INF]}),
        one(
            "FULLY_CONNECTED",
            [floats(2, 1), ONE[None]],
            floats(2, 1),
            ("FullyConnectedOptions", {}),
            values={0: [[INF], [-INF]]},
        ),
        one(
            "CONV_2D",
            [IMAGE, ONE.reshape(1, 1, 1, 1), 0 * ONE],
            IMAGE,
            ("Conv2DOptions", STRIDES),
            values={0: PIXELS},
        ),
        one(
            "TRANSPOSE_CONV",
            [numbers([1, 1, 2, 1]), ONE.reshape(1, 1, 1, 1), IMAGE],
            IMAGE,
            ("TransposeConvOptions", STRIDES),
            values={2: PIXELS},
        ),
        *(
            one(
                code,
                [IMAGE],
                IMAGE,
                ("Pool2DOptions", {**STRIDES, "FilterHeight": 1, "FilterWidth": 1}),
                values={0: PIXELS},
            )
            for code in ("AVERAGE_POOL_2D", "MAX_POOL_2D")
        ),
    ],
    ids=lambda operator: operator.code,
)
def test_infinities_stay_infinities(operator: OneOperator) -> None:
    assert answers(operator) == ([INF, -INF], [MOST, -MOST])


@pytest.mark.parametrize(
    ("operator", "got", "wanted"),
    [
        (one("MAXIMUM", [floats(1)] * 2, floats(1), values={0: [NAN], 1: [1]}), NAN, 1),
        (one("MINIMUM", [floats(1)] * 2, floats(1), values={0: [NAN], 1: [1]}), NAN, 1),
        (
            one(
                "ARG_MAX", [floats(2), numbers(0)], int32(), ("ArgMaxOptions", {"OutputType": 2}), values={0: [NAN, 1]}
            ),
            0,
            1,
        ),
        (one("QUANTIZE", [floats(1)], int8(1), values={0: [1e30]}), 127, -128),
    ],
    ids=lambda value: value.code if isinstance(value, OneOperator) else "",
)
def test_nan_is_kept_and_large_numbers_are_the_largest_codes(operator: OneOperator, got: float, wanted: float) -> None:
    np.testing.assert_equal(answers(operator), ([got], [wanted]))
