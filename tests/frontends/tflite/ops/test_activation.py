"""Activations as operators of their own."""

from __future__ import annotations

from typing import Any

import pytest

from nnhal_cascade.graph.islands import UNARY
from tests.support.tflite_files import int8, uint8
from tests.support.tflite_operators import one


@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize("kind", [int8, uint8])
def test_gelu_of_8_bits_is_a_function_of_one_tensor(kind: Any, approximate: bool) -> None:
    given = [kind(4, 256)]
    names = one("GELU", given, kind(4, 256), ("GeluOptions", {"Approximate": approximate})).check()
    assert (names[0], names[-1]) == ("DEQUANTIZE", "QUANTIZE")
    assert set(names[1:-1]) <= {each.name for each in UNARY}
