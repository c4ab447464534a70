"""Tables of TFLite operators: what a file of one operator becomes, or why the HAL has no operations for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from tflite import ActivationFunctionType, FullyConnectedOptionsWeightsFormat, Padding, TensorType

from tests.support.drawn_values import integers, random
from tests.support.tflite_files import Options, Spec, booleans, floats, int8, int32, uint8
from tests.support.tflite_operators import Given, OneOperator, numbers, one


@dataclass(frozen=True)
class TfliteForm:
    """One operator, and what becomes of it."""

    operator: OneOperator
    """The operator."""
    expected: list[str]
    """The names of the HAL's operations."""
    limits: dict[str, Any] = field(default_factory=dict)
    """How far cpu_ref may differ from LiteRT, and by which of its kernels."""
    words: str = ""
    """A part of the reason for a refusal, as a regular expression."""


def becomes(expected: str, operator: OneOperator, **limits: Any) -> TfliteForm:
    """Say which operations an operator becomes; with them cpu_ref computes what LiteRT does."""
    return TfliteForm(operator, expected.split(), limits)


def refused(words: str, operator: OneOperator) -> TfliteForm:
    """Say why the HAL has no operations for an operator."""
    return TfliteForm(operator, [], words=words)


def _each(*rows: Any) -> Any:
    """Return rows whose inputs are of several kinds."""
    return rows


Make = Callable[..., Spec]
_BYTES: tuple[Make, ...] = (int8, uint8)
_RELU, _RELU6 = ActivationFunctionType.RELU, ActivationFunctionType.RELU6
_SIGNS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
_PAIRS = (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"), ("DIV", "DivOptions"))
_FUSED: dict[str, Any] = {"FusedActivationFunction": _RELU}
_DIVISORS, _AT_RUN_TIME = numbers([[-2], [3], [1]]), "its divisor: 'x1' is computed at run time"

ELEMENTWISE = [
    *(
        becomes(code, one(code, [floats(2, 3, 4), floats(3, 1)], floats(2, 3, 4), (kind, options)))
        for code, kind in _PAIRS
        for options in (_FUSED, {})
    ),
    *(
        form
        for code, kind in _PAIRS[:3]
        for form in (
            becomes(
                code,
                one(
                    code,
                    [int8(2, 3, 4), int8(4, scale=0.03, zero_point=-4)],
                    int8(2, 3, 4, scale=0.09, zero_point=0),
                    (kind, _FUSED),
                ),
            ),
            becomes(code, one(code, [int32(2, 3, 4), int32(3, 1)], int32(2, 3, 4))),
        )
    ),
    # What the HAL has no quantised form of is computed in floats.
    becomes(
        "DEQUANTIZE DEQUANTIZE MUL QUANTIZE",
        one("MUL", [int8(2, 3, scale=1.0), int8(3, scale=2.0)], int8(2, 3, scale=1.5)),
    ),
    becomes(
        "DEQUANTIZE DIV QUANTIZE",
        one("DIV", [uint8(2, 3), (numbers([20, 60, 90], "uint8"), uint8(3))], uint8(2, 3, scale=0.1)),
    ),
    refused(_AT_RUN_TIME, one("DIV", [uint8(2, 3), uint8(3)], uint8(2, 3))),
    refused("a divisor of 0", one("DIV", [uint8(2, 3), (numbers([130] * 3, "uint8"), uint8(3))], uint8(2, 3))),
    becomes("DIV", one("FLOOR_DIV", [int32(2, 3, 4), _DIVISORS], int32(2, 3, 4))),
    becomes("DIV MUL SUB", one("FLOOR_MOD", [int32(2, 3, 4), _DIVISORS], int32(2, 3, 4))),
    refused("quotients of integers, truncated", one("DIV", [int32(2, 3, 4), _DIVISORS], int32(2, 3, 4))),
    *(
        form
        for code in ("FLOOR_DIV", "FLOOR_MOD")
        for form in (
            refused(_AT_RUN_TIME, one(code, [int32(3), int32(3)], int32(3))),
            refused("a divisor of 0", one(code, [int32(3), numbers([1, 0, 2])], int32(3))),
        )
    ),
    becomes("DIV FLOOR", one("FLOOR_DIV", [floats(2, 3), random(3)], floats(2, 3))),
    refused("a remainder of floats", one("FLOOR_MOD", [floats(2, 3), random(3)], floats(2, 3))),
    becomes("ADD ADD", one("ADD_N", [floats(2, 3)] * 3, floats(2, 3))),
    becomes("MUL", one("SQUARE", [floats(2, 3)], floats(2, 3))),
    becomes("SUB MUL", one("SQUARED_DIFFERENCE", [floats(2, 3), floats(3)], floats(2, 3))),
    becomes(
        "DEQUANTIZE DEQUANTIZE SUB MUL QUANTIZE",
        one("SQUARED_DIFFERENCE", [int8(2, 3), int8(3)], int8(2, 3, scale=0.5)),
    ),
    *(
        becomes(code, one(code, [kind(2, 3), kind(3)], made(2, 3)))
        for kind in (floats, int8, int32)
        for code, made in (("MAXIMUM", kind), ("MINIMUM", kind), *((sign, booleans) for sign in _SIGNS))
    ),
    *(becomes(c, one(c, [booleans(2, 3), booleans(3)], booleans(2, 3))) for c in ("LOGICAL_AND", "LOGICAL_OR")),
    becomes("LOGICAL_NOT", one("LOGICAL_NOT", [booleans(2, 3)], booleans(2, 3))),
    becomes("POW", one("POW", [floats(2, 3), floats(3)], floats(2, 3), low=0.1)),
    becomes("PRELU", one("PRELU", [floats(1, 2, 2, 3), random(1, 1, 3)], floats(1, 2, 2, 3))),
    becomes(
        "PRELU",
        one(
            "PRELU",
            [int8(1, 2, 2, 3), (integers(1, 1, 3), int8(1, 1, 3, scale=0.01, zero_point=2))],
            int8(1, 2, 2, 3, scale=0.04),
        ),
    ),
    *(
        becomes(expected, one(code, [floats(2, 6)], floats(2, 6), low=low, high=4))
        for code, low, expected in (
            ("ABS", -4, "ABS"),
            ("CEIL", -4, "NEG FLOOR NEG"),
            ("COS", -4, "MUL SIN MUL MUL SUB"),
            ("EXP", -4, "EXP"),
            ("FLOOR", -4, "FLOOR"),
            ("HARD_SWISH", -4, "HARD_SWISH"),
            ("LOG", 0.1, "LOG"),
            ("NEG", -4, "NEG"),
            ("RSQRT", 0.1, "RSQRT"),
            ("SIN", -4, "SIN"),
            ("SQRT", 0.1, "SQRT"),
        )
    ),
    *(
        becomes(
            f"DEQUANTIZE {code} QUANTIZE",
            one(code, [int8(3, 20, scale=0.02, zero_point=-128)], int8(3, 20, zero_point=0)),
        )
        for code in ("ABS", "EXP", "LOG", "SQRT")
    ),
    becomes("HARD_SWISH", one("HARD_SWISH", [int8(3, 40)], int8(3, 40, scale=0.04))),
    becomes("RSQRT", one("RSQRT", [int8(3, 20, scale=0.02, zero_point=-128)], int8(3, 20, zero_point=0))),
    # A selection is of one shape.
    becomes("SELECT", one("SELECT", [booleans(2, 3), floats(2, 3), floats(2, 3)], floats(2, 3))),
    becomes("LOGICAL_OR SELECT", one("SELECT", [booleans(), floats(2, 3), floats(2, 3)], floats(2, 3))),
    becomes(
        "LOGICAL_OR RESHAPE TILE SELECT", one("SELECT_V2", [booleans(2, 1), floats(2, 3), floats(3)], floats(2, 3))
    ),
    becomes("RESHAPE TILE SELECT", one("SELECT_V2", [booleans(2, 3), int8(2, 3), int8(1)], int8(2, 3))),
    refused("a mask that selects slices", one("SELECT", [booleans(2), floats(2, 3), floats(2, 3)], floats(2, 3))),
    becomes("SELECT", one("SELECT", [booleans(2, 3), int32(2, 3), int32(2, 3)], int32(2, 3))),
]

_CLAMPS = (("RELU", "RELU"), ("RELU6", "RELU6"), ("RELU_N1_TO_1", "RELU1"))


def _leaky(slope: float) -> Options:
    return "LeakyReluOptions", {"Alpha": slope}


ACTIVATIONS = [
    *(
        becomes(expected, one(code, [floats(3, 8)], floats(3, 8), low=-4, high=8))
        for code, expected in (*_CLAMPS, ("ELU", "ELU"), ("LOGISTIC", "LOGISTIC"), ("TANH", "TANH"))
    ),
    # Another scale takes an addition of zero.
    *(
        form
        for (code, expected), kind in product(_CLAMPS, _BYTES)
        for form in (
            becomes(expected, one(code, [kind(3, 40)], kind(3, 40))),
            becomes("ADD", one(code, [kind(3, 40)], kind(3, 40, scale=0.04, zero_point=60))),
        )
    ),
    becomes("RELU MINIMUM", one("RELU_0_TO_1", [floats(3, 8)], floats(3, 8))),
    becomes(
        "DEQUANTIZE RELU MINIMUM QUANTIZE",
        one("RELU_0_TO_1", [int8(3, 40)], int8(3, 40, scale=1 / 256, zero_point=-128)),
    ),
    # Results in the scale that the HAL fixes.
    *(
        becomes(code, one(code, [kind(3, 40)], kind(3, 40, scale=scale, zero_point=zero_point)))
        for code, kind, scale, zero_point in (
            ("LOGISTIC", int8, 1 / 256, -128),
            ("LOGISTIC", uint8, 1 / 256, 0),
            ("TANH", int8, 1 / 128, 0),
            ("TANH", uint8, 1 / 128, 128),
        )
    ),
    becomes("DEQUANTIZE ELU QUANTIZE", one("ELU", [int8(3, 40)], int8(3, 40))),
    *(
        becomes("PRELU", one("LEAKY_RELU", [kind(3, 40)], kind(3, 40), _leaky(slope)))
        for slope in (0.1, -0.2, 0.0)
        for kind in (floats, *_BYTES)
    ),
    refused("slope nan", one("LEAKY_RELU", [int8(3)], int8(3), _leaky(float("nan")))),
    *(
        becomes("SOFTMAX", one("SOFTMAX", [given], made, ("SoftmaxOptions", {"Beta": beta})))
        for beta in (1.0, 0.5)
        for given, made in (
            (floats(3, 10), floats(3, 10)),
            (int8(3, 10), int8(3, 10, scale=1 / 256, zero_point=-128)),
            (uint8(3, 10), uint8(3, 10, scale=1 / 256, zero_point=0)),
        )
    ),
    becomes("LOG_SOFTMAX", one("LOG_SOFTMAX", [floats(3, 10)], floats(3, 10))),
    becomes(
        "DEQUANTIZE LOG_SOFTMAX QUANTIZE",
        one("LOG_SOFTMAX", [int8(3, 10)], int8(3, 10, scale=16 / 256, zero_point=127)),
    ),
    becomes("L2_NORMALIZATION", one("L2_NORMALIZATION", [floats(3, 10)], floats(3, 10))),
    becomes("L2_NORMALIZATION", one("L2_NORMALIZATION", [int8(3, 40)], int8(3, 40, scale=1 / 128, zero_point=0))),
    refused("fused activation 1", one("L2_NORMALIZATION", [floats(3, 10)], floats(3, 10), ("L2NormOptions", _FUSED))),
    # The reference kernel leaves out the last channel of the window; the optimised one does not.
    becomes(
        "LOCAL_RESPONSE_NORMALIZATION",
        one(
            "LOCAL_RESPONSE_NORMALIZATION",
            [floats(1, 2, 2, 8)],
            floats(1, 2, 2, 8),
            ("LocalResponseNormalizationOptions", {"Radius": 2, "Bias": 1.0, "Alpha": 0.5, "Beta": 0.75}),
        ),
        optimised=True,
    ),
]

_SCALES = [0.01, 0.02, 0.03, 0.04]
_FILTER, _DRAWN = (integers(4, 3, 2, 3), int8(4, 3, 2, 3, scale=_SCALES)), random(4, 3, 2, 3)
_BIAS: Given = (integers(4, low=-500, high=500), Spec([4], np.int32, [0.05 * scale for scale in _SCALES]))
_SUMS: Given = (integers(4), Spec([4], np.int32, 0.001))
_IMAGE = floats(1, 5, 6, 3)


def conv(**more: Any) -> Options:
    """Return the options of a convolution with stride 1."""
    return "Conv2DOptions", {"Padding": Padding.SAME, "StrideW": 1, "StrideH": 1, **more}


def _pooled(padding: int) -> Options:
    window = {"StrideW": 2, "StrideH": 1, "FilterWidth": 3, "FilterHeight": 2}
    return "Pool2DOptions", {**window, "Padding": padding, "FusedActivationFunction": _RELU6}


WINDOWS = [
    *(
        becomes("CONV_2D", one("CONV_2D", [_IMAGE, _DRAWN, random(4)], floats(*made), options))
        for options, made in (
            (conv(), (1, 5, 6, 4)),
            (conv(Padding=Padding.VALID, StrideW=2), (1, 3, 3, 4)),
            (conv(FusedActivationFunction=_RELU6), (1, 5, 6, 4)),
            (conv(FusedActivationFunction=ActivationFunctionType.RELU_N1_TO_1), (1, 5, 6, 4)),
            (conv(DilationWFactor=2, DilationHFactor=2), (1, 5, 6, 4)),
        )
    ),
    # A filter of fewer channels than the input is one of groups.
    becomes(
        "GROUPED_CONV_2D",
        one("CONV_2D", [floats(1, 5, 6, 4), random(4, 3, 2, 2), random(4)], floats(1, 5, 6, 4), conv()),
    ),
    refused(
        "2 groups with dilation",
        one(
            "CONV_2D",
            [floats(1, 5, 6, 4), random(4, 3, 2, 2), random(4)],
            floats(1, 5, 6, 4),
            conv(DilationWFactor=2, DilationHFactor=2),
        ),
    ),
    # Quantised sums are exactly the reference kernels'.
    *(
        becomes(
            "CONV_2D",
            one("CONV_2D", [kind(1, 5, 6, 3), *weights], kind(1, 5, 6, 4, scale=0.07), conv(**_FUSED)),
            steps=0,
        )
        for kind, weights in (
            (int8, (_FILTER, _BIAS)),
            (int8, ((integers(4, 3, 2, 3), int8(4, 3, 2, 3, scale=0.02, zero_point=0)), _SUMS)),
            (uint8, ((integers(4, 3, 2, 3, low=0, high=256), uint8(4, 3, 2, 3, scale=0.02)), _SUMS)),
        )
    ),
    # LiteRT quantises the image at run time, so its result is the less exact one.
    becomes("CONV_2D", one("CONV_2D", [_IMAGE, _FILTER, random(4)], floats(1, 5, 6, 4), conv()), tolerance=0.1),
    refused(
        "fused activation 4",
        one(
            "CONV_2D",
            [_IMAGE, _DRAWN, random(4)],
            floats(1, 5, 6, 4),
            conv(FusedActivationFunction=ActivationFunctionType.TANH),
        ),
    ),
    *(
        becomes(
            "TRANSPOSE_CONV_2D",
            one(
                "TRANSPOSE_CONV",
                inputs,
                made,
                ("TransposeConvOptions", {"Padding": padding, "StrideW": 2, "StrideH": 2}),
            ),
        )
        for inputs, made, padding in _each(
            ([numbers([1, 8, 8, 3]), random(3, 3, 3, 2), floats(1, 4, 4, 2)], floats(1, 8, 8, 3), Padding.SAME),
            (
                [numbers([1, 9, 9, 3]), random(3, 3, 3, 2), floats(1, 4, 4, 2), random(3)],
                floats(1, 9, 9, 3),
                Padding.VALID,
            ),
            (
                [
                    numbers([1, 8, 8, 4]),
                    (integers(4, 3, 3, 2), int8(4, 3, 3, 2, scale=_SCALES)),
                    int8(1, 4, 4, 2),
                    _BIAS,
                ],
                int8(1, 8, 8, 4, scale=0.07),
                Padding.SAME,
            ),
        )
    ),
    *(
        becomes(code, one(code, [kind(1, 5, 6, 3)], kind(*made), _pooled(padding)))
        for code in ("AVERAGE_POOL_2D", "MAX_POOL_2D")
        for kind in (floats, *_BYTES)
        for padding, made in ((Padding.SAME, (1, 5, 3, 3)), (Padding.VALID, (1, 4, 2, 3)))
    ),
    becomes("L2_POOL_2D", one("L2_POOL_2D", [_IMAGE], floats(1, 5, 3, 3), _pooled(Padding.SAME))),
    *(
        becomes(code, one(code, [kind(1, 3, 4, 2), numbers([5, 7])], kind(1, 5, 7, 2), (options, flags)))
        for code, options in (
            ("RESIZE_BILINEAR", "ResizeBilinearOptions"),
            ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
        )
        for flags in ({}, {"AlignCorners": True}, {"HalfPixelCenters": True})
        for kind in (floats, int8)
    ),
    becomes(
        "SPACE_TO_DEPTH",
        one("SPACE_TO_DEPTH", [floats(1, 4, 6, 2)], floats(1, 2, 3, 8), ("SpaceToDepthOptions", {"BlockSize": 2})),
    ),
    becomes(
        "DEPTH_TO_SPACE",
        one("DEPTH_TO_SPACE", [int8(1, 2, 3, 8)], int8(1, 4, 6, 2), ("DepthToSpaceOptions", {"BlockSize": 2})),
    ),
    *(
        becomes(expected, one(code, [given, numbers([2, 2]), numbers(borders)], made))
        for code, given, borders, made, expected in (
            ("SPACE_TO_BATCH_ND", floats(1, 3, 6, 2), [[1, 0], [0, 0]], floats(4, 2, 3, 2), "SPACE_TO_BATCH_ND"),
            ("BATCH_TO_SPACE_ND", int8(4, 2, 3, 2), [[0, 0], [0, 0]], int8(1, 4, 6, 2), "BATCH_TO_SPACE_ND"),
            ("BATCH_TO_SPACE_ND", floats(4, 2, 3, 2), [[1, 0], [0, 2]], floats(1, 3, 4, 2), "BATCH_TO_SPACE_ND SLICE"),
        )
    ),
    refused("rank 3", one("SPACE_TO_BATCH_ND", [floats(1, 4, 2), numbers([2]), numbers([[0, 0]])], floats(2, 2, 2))),
]

_PER_TENSOR = (integers(5, 12), int8(5, 12, scale=0.02, zero_point=0))
_PER_UNIT = (integers(5, 12), int8(5, 12, scale=[*_SCALES, 0.05]))
_LOADS = (integers(5, low=-500, high=500), Spec([5], np.int32, 0.001))
_FOUR_BITS = (integers(10), Spec([5, 4], np.int8, 0.02, code=TensorType.INT4))


def _fully(**options: Any) -> Options:
    return "FullyConnectedOptions", options


MATRICES = [
    *(
        becomes(
            expected, one("FULLY_CONNECTED", [floats(*given), random(*weights), bias], floats(*made), _fully(**more))
        )
        for bias in (random(5), None)
        for given, weights, made, more, expected in (
            ((2, 12), (5, 12), (2, 5), {}, "FULLY_CONNECTED"),
            ((2, 3, 4), (5, 12), (2, 5), {}, "FULLY_CONNECTED"),
            ((2, 3, 4), (5, 4), (2, 3, 5), {"KeepNumDims": True}, "FULLY_CONNECTED RESHAPE"),
        )
    ),
    becomes(
        "FULLY_CONNECTED",
        one("FULLY_CONNECTED", [int8(2, 12), _PER_TENSOR, _LOADS], int8(2, 5, scale=0.07), _fully(**_FUSED)),
        steps=0,
    ),
    # A scale for each unit makes it a convolution.
    *(
        becomes("RESHAPE CONV_2D RESHAPE", one("FULLY_CONNECTED", [given, _PER_UNIT], made, _fully(**more)), steps=0)
        for given, made, more in (
            (int8(2, 12), int8(2, 5, scale=0.07), {}),
            (int8(2, 3, 12), int8(2, 3, 5, scale=0.2), {"KeepNumDims": True}),
        )
    ),
    becomes(
        "FULLY_CONNECTED",
        one("FULLY_CONNECTED", [int8(2, 4), _FOUR_BITS, _LOADS], int8(2, 5, scale=0.07), _fully()),
    ),
    # LiteRT quantises the rows at run time.
    becomes(
        "FULLY_CONNECTED",
        one("FULLY_CONNECTED", [floats(2, 12), _PER_TENSOR, random(5)], floats(2, 5), _fully()),
        tolerance=0.2,
    ),
    refused(
        "weights of format 1",
        one(
            "FULLY_CONNECTED",
            [int8(2, 12), _PER_TENSOR],
            int8(2, 5),
            _fully(WeightsFormat=FullyConnectedOptionsWeightsFormat.SHUFFLED4x16INT8),
        ),
    ),
    *(
        becomes(expected, one("BATCH_MATMUL", inputs, made, ("BatchMatMulOptions", more)))
        for inputs, made, more, expected in _each(
            ([floats(2, 3, 4), floats(2, 4, 5)], floats(2, 3, 5), {}, "BATCH_MATMUL"),
            ([floats(2, 4, 3), floats(2, 5, 4)], floats(2, 3, 5), {"AdjX": True, "AdjY": True}, "BATCH_MATMUL"),
            ([int8(2, 3, 4), int8(2, 4, 5)], int8(2, 3, 5, scale=0.2), {}, "BATCH_MATMUL"),
            ([floats(2, 3, 4), random(4, 5)], floats(2, 3, 5), {}, "RESHAPE TILE BATCH_MATMUL"),
            ([floats(1, 3, 4), floats(2, 4, 5)], floats(2, 3, 5), {}, "TILE BATCH_MATMUL"),
        )
    ),
]

_HALVES, _LONGS = Spec([2, 3], np.float16), Spec([2, 3], np.int64)

CONVERSIONS = [
    *(
        becomes(expected, one("QUANTIZE", [given], made))
        for given, made, expected in (
            (floats(2, 9), int8(2, 9, scale=0.02), "QUANTIZE"),
            (floats(2, 9), uint8(2, 9, scale=0.02), "QUANTIZE"),
            (int8(20, 9), int8(20, 9, scale=0.08, zero_point=-20), "ADD"),
            (uint8(20, 9), uint8(20, 9, scale=0.03), "ADD"),
            (uint8(20, 9), int8(20, 9), "DEQUANTIZE QUANTIZE"),
            (int8(20, 9), uint8(20, 9, scale=0.03), "DEQUANTIZE QUANTIZE"),
        )
    ),
    becomes("DEQUANTIZE", one("DEQUANTIZE", [int8(2, 9)], floats(2, 9))),
    becomes("DEQUANTIZE", one("DEQUANTIZE", [uint8(2, 9)], floats(2, 9))),
    becomes("CAST", one("DEQUANTIZE", [Spec([2, 9], np.float16)], floats(2, 9))),
    *(
        becomes(expected, one("CAST", [given], made))
        for given, made, expected in (
            (floats(2, 3), int32(2, 3), "CAST"),
            (int32(2, 3), floats(2, 3), "CAST"),
            (int32(2, 3), _LONGS, "CAST"),
            (Spec([2, 3], np.uint8), floats(2, 3), "CAST"),
            (floats(2, 3), _HALVES, "CAST"),
            (booleans(2, 3), floats(2, 3), "SELECT"),
            (booleans(2, 3), int32(2, 3), "SELECT"),
            (floats(2, 3), booleans(2, 3), "NOT_EQUAL"),
            (int32(2, 3), booleans(2, 3), "NOT_EQUAL"),
        )
    ),
    refused("expected TENSOR_QUANT8_ASYMM_SIGNED", one("CAST", [Spec([2], np.int8)], floats(2))),
    # Integers of 64 bits that may be large are not the HAL's.
    *(
        refused(
            "'x0' has integers of 64 bits, expected 32",
            one("ADD", [Spec([1], np.int64), np.array([number])], Spec([1], np.int64)),
        )
        for number in (1, 1 << 40)
    ),
]

_SUMMED = {
    "MEAN": "MEAN",
    "SUM": "REDUCE_SUM",
    "REDUCE_PROD": "REDUCE_PROD",
    "REDUCE_MAX": "REDUCE_MAX",
    "REDUCE_MIN": "REDUCE_MIN",
}

REDUCTIONS = [
    *(
        becomes(
            expected, one(code, [floats(2, 3, 4), numbers(axes)], floats(*made), ("ReducerOptions", {"KeepDims": keep}))
        )
        for code, expected in _SUMMED.items()
        for axes, keep, made in (
            ([1], False, (2, 4)),
            ([0, -1], True, (1, 3, 1)),
            ([0, 1, 2], False, ()),
            (1, False, (2, 4)),
        )
    ),
    *(
        becomes(code, one(code, [kind(2, 3, 4), numbers([1])], kind(2, 4)))
        for code in ("MEAN", "REDUCE_MAX", "REDUCE_MIN")
        for kind in _BYTES
    ),
    # Another scale is reached in floats. LiteRT's reference kernel for quantised sums is wrong.
    *(
        becomes(
            f"DEQUANTIZE {_SUMMED[code]} QUANTIZE",
            one(code, [int8(1, 7, 7, 8), numbers([1, 2])], int8(1, 8, scale=0.7, zero_point=-5)),
            optimised=True,
        )
        for code in ("MEAN", "SUM")
    ),
    *(
        becomes(code, one(code, [booleans(2, 3, 4), numbers([1])], booleans(2, 4)))
        for code in ("REDUCE_ANY", "REDUCE_ALL")
    ),
    *(
        becomes(expected, one(code, [given, numbers(axis)], made, (options, {"OutputType": wanted})))
        for code, options, expected in (
            ("ARG_MAX", "ArgMaxOptions", "ARGMAX"),
            ("ARG_MIN", "ArgMinOptions", "ARGMIN"),
        )
        for given, axis, made, wanted in (
            (floats(2, 3, 4), 1, int32(2, 4), TensorType.INT32),
            (int8(2, 9), -1, Spec([2], np.int64), TensorType.INT64),
            (floats(4), 0, int32(), TensorType.INT32),
        )
    ),
]

_BORDERS = [[0, 1], [2, 0]]


def _joined(axis: int) -> Options:
    return "ConcatenationOptions", {"Axis": axis}


MOVEMENT = [
    *(
        becomes("PAD", one("PAD", [kind(2, 3), numbers(_BORDERS, element)], kind(3, 5)))
        for kind in (floats, int8)
        for element in (np.int32, np.int64)
    ),
    *(
        becomes("PAD_V2", one("PADV2", [kind(2, 3), numbers(_BORDERS), value], kind(3, 5)))
        for kind, value in (
            (floats, np.array([3.0], np.float32)),
            (int8, (numbers(-7), int8())),
            (uint8, (numbers(7), uint8())),
        )
    ),
    *(
        becomes(
            "MIRROR_PAD",
            one("MIRROR_PAD", [floats(2, 3), numbers(_BORDERS)], floats(3, 5), ("MirrorPadOptions", {"Mode": mode})),
        )
        for mode in (0, 1)
    ),
    becomes(
        "PAD",
        one("PAD", [floats(2, 3), Spec([2, 2], np.int32)], Spec([3, 5], signature=[-1, -1]), values={1: _BORDERS}),
    ),
    becomes("TILE", one("TILE", [floats(2, 3), numbers([2, 1])], floats(4, 3))),
    *(
        becomes(expected, one("BROADCAST_TO", [kind(3, 1), numbers([2, 3, 2])], kind(2, 3, 2), version=2))
        for kind, expected in ((floats, "RESHAPE TILE"), (booleans, "LOGICAL_OR"))
    ),
    becomes("FILL", one("FILL", [numbers([2, 3]), np.array(4, np.float32)], floats(2, 3))),
    becomes("FILL", one("FILL", [numbers([2, 3], np.int64), numbers(4, np.int64)], _LONGS)),
    refused("1 values of TENSOR_QUANT8_ASYMM_SIGNED", one("FILL", [numbers([2]), (numbers(4), int8())], int8(2))),
    becomes("REVERSE", one("REVERSE_V2", [int8(2, 3, 4), numbers([-1])], int8(2, 3, 4))),
    # A shape is an input or an option.
    *(
        becomes("RESHAPE", one("RESHAPE", inputs, made, ("ReshapeOptions", options)))
        for inputs, made, options in _each(
            ([floats(2, 6), numbers([3, -1])], floats(3, 4), {}),
            ([floats(2, 6)], floats(3, 4), {"NewShape": [3, 4]}),
            ([int32(2, 6), numbers([3, 4])], int32(3, 4), {}),
            ([int8(2, 6), numbers([3, 4])], int8(3, 4), {}),
            ([floats(1, 1), numbers([])], floats(), {}),
        )
    ),
    *(
        becomes("RESHAPE", one("SQUEEZE", [floats(1, 3, 1, 2)], floats(*made), ("SqueezeOptions", options)))
        for options, made in (
            ({}, (3, 2)),
            ({"SqueezeDims": [0]}, (3, 1, 2)),
            ({"SqueezeDims": [-2]}, (1, 3, 2)),
            ({"SqueezeDims": [0, 2]}, (3, 2)),
        )
    ),
    *(
        becomes("RESHAPE", one("EXPAND_DIMS", [given, numbers(axis)], made))
        for given, axis, made in (
            (floats(3, 2), -1, floats(3, 2, 1)),
            (int32(3, 2), 1, int32(3, 1, 2)),
            (floats(), 0, floats(1)),
        )
    ),
    *(
        becomes("TRANSPOSE", one("TRANSPOSE", [kind(2, 3, 4), numbers([2, 0, 1])], kind(4, 2, 3)))
        for kind in (floats, int8)
    ),
    *(
        becomes("CONCATENATION", one("CONCATENATION", inputs, made, _joined(axis)))
        for inputs, made, axis in _each(
            ([floats(2, 3), floats(2, 1), random(2, 2)], floats(2, 6), -1),
            ([int8(2, 3), int8(2, 3)], int8(4, 3), 0),
            ([uint8(2, 3), uint8(2, 3, scale=0.03, zero_point=100)], uint8(4, 3, scale=0.06), 0),
        )
    ),
    *(
        becomes(expected, one("PACK", [given, given], made, ("PackOptions", {"Axis": axis, "ValuesCount": 2})))
        for given, made, axis, expected in (
            (floats(2, 3), floats(2, 2, 3), 1, "PACK"),
            (int8(2, 3), int8(2, 3, 2), -1, "PACK"),
            (floats(), floats(2), 0, "CONCATENATION"),
        )
    ),
    *(
        becomes(
            " ".join(["SPLIT", *["RESHAPE"] * n]),
            one("UNPACK", [given], [made] * n, ("UnpackOptions", {"Axis": axis, "Num": n})),
        )
        for given, made, axis, n in (
            (floats(2, 3), floats(2), -1, 3),
            (int32(2, 3), int32(3), 0, 2),
            (floats(2), floats(), 0, 2),
        )
    ),
    *(
        becomes("SPLIT", one("SPLIT", [numbers(-1), kind(2, 6)], [kind(2, 2)] * 3, ("SplitOptions", {"NumSplits": 3})))
        for kind in (floats, int8)
    ),
    *(
        becomes(
            expected,
            one(
                "SPLIT_V",
                [floats(2, 6), numbers(sizes), numbers(-1)],
                [floats(2, length) for length in lengths],
                ("SplitVOptions", {"NumSplits": 2}),
            ),
        )
        for sizes, lengths, expected in (
            ([3, 3], [3, 3], "SPLIT"),
            ([2, -1], [2, 4], "SLICE SLICE"),
            ([-1, 3], [3, 3], "SPLIT"),
        )
    ),
]

_TABLE, _INDEXES = floats(5, 6), {1: [1, 0], 2: [4, 6], 3: [2, 1]}


def _strided(**masks: Any) -> Options:
    return "StridedSliceOptions", masks


PARTS = [
    *(
        becomes("SLICE", one("SLICE", [kind(3, 4), numbers([1, 0], element), numbers([2, -1], element)], kind(2, 4)))
        for kind in (floats, int8, int32)
        for element in (np.int32, np.int64)
    ),
    # Strided slices are written out.
    *(
        becomes(expected, one("STRIDED_SLICE", [_TABLE, *map(numbers, bounds)], floats(*made), _strided(**masks)))
        for bounds, masks, made, expected in (
            (([1, 0], [4, 6], [2, 1]), {}, (2, 6), "STRIDED_SLICE"),
            (([4, 0], [0, 6], [-2, 1]), {}, (2, 6), "STRIDED_SLICE"),
            (([1, 2], [3, 4], [1, 1]), {"BeginMask": 1, "EndMask": 2}, (3, 4), "STRIDED_SLICE"),
            (([1], [3], [1]), {}, (2, 6), "STRIDED_SLICE"),
            (([-1, 2], [0, 4], [1, 1]), {"ShrinkAxisMask": 1}, (2,), "STRIDED_SLICE"),
            (([-2, 2], [0, 4], [1, 1]), {"ShrinkAxisMask": 3}, (), "STRIDED_SLICE"),
            (([0, 1], [0, 2], [1, 1]), {"EllipsisMask": 1}, (5, 1), "STRIDED_SLICE"),
            (([0, 1], [0, 3], [1, 1]), {"NewAxisMask": 1}, (1, 2, 6), "STRIDED_SLICE RESHAPE"),
            (
                ([0, 1, 0], [0, 2, 3], [1, 1, 2]),
                {"NewAxisMask": 1, "ShrinkAxisMask": 2},
                (1, 2),
                "STRIDED_SLICE RESHAPE",
            ),
            (([1, 2], [2, 3], [1, 1]), {"Offset": True}, (2, 3), "STRIDED_SLICE"),
        )
    ),
    # A strided slice of integers is a slice.
    becomes(
        "SLICE RESHAPE",
        one(
            "STRIDED_SLICE",
            [int32(5, 6), numbers([1, 2]), numbers([2, 4]), numbers([1, 1])],
            int32(2),
            _strided(ShrinkAxisMask=1),
        ),
    ),
    refused(
        "a strided slice of integers",
        one("STRIDED_SLICE", [int32(5, 6), numbers([1, 2]), numbers([2, 4]), numbers([1, 2])], int32(1)),
    ),
    # Bounds that are computed at run time take no shorthands.
    becomes(
        "STRIDED_SLICE",
        one(
            "STRIDED_SLICE",
            [_TABLE, *[int32(2)] * 3],
            Spec([2, 6], signature=[-1, -1]),
            _strided(),
            values=_INDEXES,
        ),
    ),
    refused(
        "computed at run time",
        one("STRIDED_SLICE", [_TABLE, *[int32(2)] * 3], floats(2, 6), _strided(EllipsisMask=1)),
    ),
    *(
        becomes(expected, one("GATHER", [given, indexes], made, ("GatherOptions", {"Axis": axis})))
        for given, indexes, axis, made, expected in (
            (floats(4, 3), numbers([[2, 0], [1, 1]]), 0, floats(2, 2, 3), "GATHER"),
            (int8(4, 3), numbers([3, 1], np.int64), 0, int8(2, 3), "GATHER"),
            (floats(4, 3), numbers(2), -1, floats(4), "GATHER RESHAPE"),
            (floats(4), numbers(2), 0, floats(), "GATHER RESHAPE"),
        )
    ),
    refused(
        "1 batch axes",
        one(
            "GATHER", [floats(2, 3), numbers([[1], [0]])], floats(2, 1), ("GatherOptions", {"Axis": 1, "BatchDims": 1})
        ),
    ),
    becomes("EMBEDDING_LOOKUP", one("EMBEDDING_LOOKUP", [int32(3), random(5, 4)], floats(3, 4), values={0: [4, 0, 2]})),
    becomes(
        "HASHTABLE_LOOKUP",
        one(
            "HASHTABLE_LOOKUP",
            [int32(3), numbers([1, 5, 9]), random(3, 2)],
            [floats(3, 2), Spec([3], np.uint8)],
            values={0: [5, 2, 9]},
        ),
    ),
    *(
        becomes(
            "LSH_PROJECTION",
            one(
                "LSH_PROJECTION",
                [random(3, 2), int32(4, 2), *weights],
                int32(length),
                ("LSHProjectionOptions", {"Type": kind}),
                values={1: [[1, 2], [3, 4], [5, 6], [7, 8]]},
            ),
        )
        for kind, length in ((1, 3), (2, 6))
        for weights in ([], [random(4)])
    ),
]

FORMS = [
    *ELEMENTWISE,
    *ACTIVATIONS,
    *WINDOWS,
    *MATRICES,
    *CONVERSIONS,
    *REDUCTIONS,
    *MOVEMENT,
    *PARTS,
]
