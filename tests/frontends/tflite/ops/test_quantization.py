"""QUANTIZE, DEQUANTIZE and CAST."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.drawn_values import integers, random
from tests.support.onnx_models import operations
from tests.support.tflite_files import Spec, TfliteFile, floats, int8
from tests.support.tflite_operators import check


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
