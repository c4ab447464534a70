"""Operators that join tensors along an axis, or split them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tflite import ActivationFunctionType

from nnhal_frontends.tflite import import_tflite
from tests.support.drawn_values import random
from tests.support.onnx_models import by_cpu_ref, operations
from tests.support.tflite_files import Spec, floats, int8, int32, uint8
from tests.support.tflite_operators import numbers, one


@pytest.mark.parametrize(
    ("inputs", "output", "axis"),
    [
        ([floats(2, 3), floats(2, 1), random(2, 2)], floats(2, 6), -1),
        ([int8(2, 3), int8(2, 3)], int8(4, 3), 0),
        ([uint8(2, 3), uint8(2, 3, scale=0.03, zero_point=100)], uint8(4, 3, scale=0.06), 0),
    ],
)
def test_tensors_are_joined(inputs: Any, output: Spec, axis: int) -> None:
    assert one("CONCATENATION", inputs, output, ("ConcatenationOptions", {"Axis": axis})).check() == ["CONCATENATION"]


def test_an_activation_follows_what_is_joined() -> None:
    # LiteRT's kernels take no activation, though the schema has one.
    options = {"Axis": 0, "FusedActivationFunction": ActivationFunctionType.RELU}
    node = one("CONCATENATION", [floats(1, 3), floats(1, 3)], floats(2, 3), ("ConcatenationOptions", options))
    imported = import_tflite(node.file())
    assert operations(imported) == ["CONCATENATION", "RELU"]
    (joined,) = by_cpu_ref(imported, node.arrays())
    np.testing.assert_array_equal(joined, np.maximum(np.concatenate(list(node.arrays().values())), 0))


@pytest.mark.parametrize(
    ("given", "output", "axis", "expected"),
    [
        (floats(2, 3), floats(2, 2, 3), 1, ["PACK"]),
        (int8(2, 3), int8(2, 3, 2), -1, ["PACK"]),
        (floats(), floats(2), 0, ["CONCATENATION"]),
    ],
)
def test_tensors_are_packed_along_a_new_axis(given: Spec, output: Spec, axis: int, expected: list[str]) -> None:
    assert one("PACK", [given, given], output, ("PackOptions", {"Axis": axis, "ValuesCount": 2})).check() == expected


@pytest.mark.parametrize(
    ("given", "output", "axis", "count"),
    [(floats(2, 3), floats(2), -1, 3), (int32(2, 3), int32(3), 0, 2), (floats(2), floats(), 0, 2)],
)
def test_slices_are_unpacked(given: Spec, output: Spec, axis: int, count: int) -> None:
    node = one("UNPACK", [given], [output] * count, ("UnpackOptions", {"Axis": axis, "Num": count}))
    assert node.check() == ["SPLIT"] + ["RESHAPE"] * count


@pytest.mark.parametrize("kind", [floats, int8])
def test_a_tensor_is_split_into_equal_parts(kind: Any) -> None:
    node = one("SPLIT", [numbers(-1), kind(2, 6)], [kind(2, 2)] * 3, ("SplitOptions", {"NumSplits": 3}))
    assert node.check() == ["SPLIT"]


@pytest.mark.parametrize(
    ("sizes", "lengths", "expected"),
    [([3, 3], [3, 3], ["SPLIT"]), ([2, -1], [2, 4], ["SLICE", "SLICE"]), ([-1, 3], [3, 3], ["SPLIT"])],
)
def test_a_tensor_is_split_into_given_parts(sizes: list[int], lengths: list[int], expected: list[str]) -> None:
    outputs = [floats(2, length) for length in lengths]
    node = one("SPLIT_V", [floats(2, 6), numbers(sizes), numbers(-1)], outputs, ("SplitVOptions", {"NumSplits": 2}))
    assert node.check() == expected
