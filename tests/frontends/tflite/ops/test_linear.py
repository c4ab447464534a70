"""FULLY_CONNECTED and BATCH_MATMUL become products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tflite

from tests.support.drawn_values import integers, random
from tests.support.tflite_files import Spec, floats, int8
from tests.support.tflite_operators import one

SCALES = [0.01, 0.02, 0.03, 0.04, 0.05]
PER_TENSOR = (integers(5, 12), int8(5, 12, scale=0.02, zero_point=0))
PER_CHANNEL = (integers(5, 12), int8(5, 12, scale=SCALES))
BIAS = (integers(5, low=-500, high=500), Spec([5], np.int32, 0.001))


def fully(**options: Any) -> tuple[str, dict[str, Any]]:
    return "FullyConnectedOptions", options


@pytest.mark.parametrize(
    ("given", "weights", "output", "options", "expected"),
    [
        ((2, 12), (5, 12), (2, 5), fully(), ["FULLY_CONNECTED"]),
        ((2, 3, 4), (5, 12), (2, 5), fully(), ["FULLY_CONNECTED"]),
        ((2, 3, 4), (5, 4), (2, 3, 5), fully(KeepNumDims=True), ["FULLY_CONNECTED", "RESHAPE"]),
    ],
)
@pytest.mark.parametrize("bias", [random(5), None])
def test_rows_are_multiplied_with_weights(
    given: Any, weights: Any, output: Any, options: Any, expected: list[str], bias: Any
) -> None:
    assert (
        one("FULLY_CONNECTED", [floats(*given), random(*weights), bias], floats(*output), options).check() == expected
    )


def test_quantised_rows_give_exactly_the_reference_kernels_values() -> None:
    options = fully(FusedActivationFunction=tflite.ActivationFunctionType.RELU)
    node = one("FULLY_CONNECTED", [int8(2, 12), PER_TENSOR, BIAS], int8(2, 5, scale=0.07), options)
    assert node.check(steps=0) == ["FULLY_CONNECTED"]


@pytest.mark.parametrize(
    ("given", "output", "options"),
    [
        (int8(2, 12), int8(2, 5, scale=0.07), fully()),
        (int8(2, 3, 12), int8(2, 3, 5, scale=0.2), fully(KeepNumDims=True)),
    ],
)
def test_a_scale_for_each_unit_makes_it_a_convolution(given: Spec, output: Spec, options: Any) -> None:
    node = one("FULLY_CONNECTED", [given, PER_CHANNEL], output, options)
    assert node.check(steps=0) == ["RESHAPE", "CONV_2D", "RESHAPE"]


def test_weights_of_four_bits_are_widened() -> None:
    packed = (integers(10), Spec([5, 4], np.int8, 0.02, code=tflite.TensorType.INT4))
    node = one("FULLY_CONNECTED", [int8(2, 4), packed, BIAS], int8(2, 5, scale=0.07), fully())
    assert node.check() == ["FULLY_CONNECTED"]


def test_quantised_weights_of_floats_are_dequantised() -> None:
    # LiteRT quantises the rows at run time.
    assert one("FULLY_CONNECTED", [floats(2, 12), PER_TENSOR, random(5)], floats(2, 5), fully()).check(0.2) == [
        "FULLY_CONNECTED"
    ]


def test_shuffled_weights_are_refused() -> None:
    options = fully(WeightsFormat=tflite.FullyConnectedOptionsWeightsFormat.SHUFFLED4x16INT8)
    assert one("FULLY_CONNECTED", [int8(2, 12), PER_TENSOR], int8(2, 5), options).refusal() == "weights of format 1"


@pytest.mark.parametrize(
    ("inputs", "output", "options", "expected"),
    [
        ([floats(2, 3, 4), floats(2, 4, 5)], floats(2, 3, 5), {}, ["BATCH_MATMUL"]),
        ([floats(2, 4, 3), floats(2, 5, 4)], floats(2, 3, 5), {"AdjX": True, "AdjY": True}, ["BATCH_MATMUL"]),
        ([int8(2, 3, 4), int8(2, 4, 5)], int8(2, 3, 5, scale=0.2), {}, ["BATCH_MATMUL"]),
        ([floats(2, 3, 4), random(4, 5)], floats(2, 3, 5), {}, ["RESHAPE", "TILE", "BATCH_MATMUL"]),
        ([floats(1, 3, 4), floats(2, 4, 5)], floats(2, 3, 5), {}, ["TILE", "BATCH_MATMUL"]),
    ],
)
def test_matrices_are_multiplied_and_batches_repeated(
    inputs: Any, output: Spec, options: dict[str, Any], expected: list[str]
) -> None:
    assert one("BATCH_MATMUL", inputs, output, ("BatchMatMulOptions", options)).check() == expected
