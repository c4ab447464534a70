"""Operators that fill, repeat, reverse or sort tensors."""

from __future__ import annotations

import numpy as np

from nnhal_frontends.tflite import import_tflite
from tests.support.onnx_models import by_cpu_ref
from tests.support.tflite_files import floats, int8
from tests.support.tflite_operators import numbers, one


def test_tensors_are_reversed_along_every_axis() -> None:
    assert one("REVERSE_V2", [int8(2, 3, 4), numbers([-1])], int8(2, 3, 4)).check() == ["REVERSE"]
    # LiteRT takes neighbouring axes only.
    node = one("REVERSE_V2", [floats(2, 3, 4), numbers([2, 0])], floats(2, 3, 4))
    (reversed_twice,) = by_cpu_ref(import_tflite(node.file()), node.arrays())
    np.testing.assert_array_equal(reversed_twice, node.arrays()["x0"][::-1, :, ::-1])
