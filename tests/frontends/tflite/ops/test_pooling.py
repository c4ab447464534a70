"""Poolings keep TFLite's windows."""

from __future__ import annotations

from typing import Any

import pytest
from tflite import ActivationFunctionType, Padding

from tests.support.tflite_files import Spec, floats, int8, uint8
from tests.support.tflite_operators import one

WINDOW: dict[str, Any] = {"StrideW": 2, "StrideH": 1, "FilterWidth": 3, "FilterHeight": 2}


@pytest.mark.parametrize("code", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
@pytest.mark.parametrize("kind", [floats, int8, uint8])
@pytest.mark.parametrize(("padding", "output"), [(Padding.SAME, (1, 5, 3, 3)), (Padding.VALID, (1, 4, 2, 3))])
def test_windows_are_pooled(code: str, kind: Any, padding: int, output: tuple[int, ...]) -> None:
    options = {**WINDOW, "Padding": padding, "FusedActivationFunction": ActivationFunctionType.RELU6}
    given: Spec = kind(1, 5, 6, 3)
    assert one(code, [given], kind(*output), ("Pool2DOptions", options)).check() == [code]


def test_l2_pooling_is_of_floats() -> None:
    assert one("L2_POOL_2D", [floats(1, 5, 6, 3)], floats(1, 5, 3, 3), ("Pool2DOptions", WINDOW)).check() == [
        "L2_POOL_2D"
    ]
