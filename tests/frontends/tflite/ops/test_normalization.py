"""SOFTMAX, LOG_SOFTMAX and normalisations."""

from __future__ import annotations

from typing import Any

import pytest
from tflite import ActivationFunctionType

from tests.support.tflite_files import floats, int8, uint8
from tests.support.tflite_operators import one


@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize(
    ("given", "output"),
    [
        (floats(3, 10), floats(3, 10)),
        (int8(3, 10), int8(3, 10, scale=1 / 256, zero_point=-128)),
        (uint8(3, 10), uint8(3, 10, scale=1 / 256, zero_point=0)),
    ],
)
def test_softmax_has_its_beta(given: Any, output: Any, beta: float) -> None:
    assert one("SOFTMAX", [given], output, ("SoftmaxOptions", {"Beta": beta})).check() == ["SOFTMAX"]


def test_log_softmax_is_of_floats() -> None:
    assert one("LOG_SOFTMAX", [floats(3, 10)], floats(3, 10)).check() == ["LOG_SOFTMAX"]
    quantised = one("LOG_SOFTMAX", [int8(3, 10)], int8(3, 10, scale=16 / 256, zero_point=127))
    assert quantised.check() == ["DEQUANTIZE", "LOG_SOFTMAX", "QUANTIZE"]


def test_l2_normalisation_is_along_the_last_axis() -> None:
    assert one("L2_NORMALIZATION", [floats(3, 10)], floats(3, 10)).check() == ["L2_NORMALIZATION"]
    assert one("L2_NORMALIZATION", [int8(3, 40)], int8(3, 40, scale=1 / 128, zero_point=0)).check() == [
        "L2_NORMALIZATION"
    ]
    options = ("L2NormOptions", {"FusedActivationFunction": ActivationFunctionType.RELU})
    assert one("L2_NORMALIZATION", [floats(3, 10)], floats(3, 10), options).refusal() == "fused activation 1"


def test_local_response_normalisation_has_its_parameters() -> None:
    # The reference kernel leaves out the last channel of the window; the optimised one does not.
    options = ("LocalResponseNormalizationOptions", {"Radius": 2, "Bias": 1.0, "Alpha": 0.5, "Beta": 0.75})
    node = one("LOCAL_RESPONSE_NORMALIZATION", [floats(1, 2, 2, 8)], floats(1, 2, 2, 8), options)
    assert node.check(optimised=True) == ["LOCAL_RESPONSE_NORMALIZATION"]
