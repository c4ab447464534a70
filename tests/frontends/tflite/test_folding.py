"""Operators over constant shapes are computed on import, with the same results as an interpreter's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.tflite_files import Options, Spec, floats, int32
from tests.support.tflite_operators import numbers, one

COPY = ["CAST"]
"""The only operation left of an operator whose result is a constant and an output."""
BOUNDS = [numbers([1]), numbers([4]), numbers([2])]


@pytest.mark.parametrize(
    ("code", "inputs", "output", "options"),
    [
        ("ADD", [numbers([1, 2]), numbers(5)], int32(2), ("AddOptions", {})),
        ("CAST", [numbers([7, 8])], Spec([2], np.int64), None),
        ("CONCATENATION", [numbers([1]), numbers([2, 3])], int32(3), ("ConcatenationOptions", {"Axis": -1})),
        ("EXPAND_DIMS", [numbers([1, 2]), numbers(1)], int32(2, 1), None),
        ("FLOOR_DIV", [numbers([-7, 7]), numbers([2])], int32(2), None),
        ("GATHER", [numbers([5, 6, 7]), numbers(2)], int32(), ("GatherOptions", {"Axis": 0})),
        ("MAXIMUM", [numbers([1, 9]), numbers([4, 4])], int32(2), None),
        ("MINIMUM", [numbers([1, 9]), numbers([4, 4])], int32(2), None),
        ("MUL", [numbers([1, 9]), numbers([4, 4])], int32(2), ("MulOptions", {})),
        ("PACK", [numbers(1), numbers(2)], int32(2), ("PackOptions", {"ValuesCount": 2})),
        ("REDUCE_PROD", [numbers([2, 3, 4]), numbers([0])], int32(), ("ReducerOptions", {"KeepDims": False})),
        ("RESHAPE", [numbers([[2, 3]]), numbers([-1])], int32(2), ("ReshapeOptions", {})),
        ("SQUEEZE", [numbers([[2], [3]])], int32(2), ("SqueezeOptions", {"SqueezeDims": [1]})),
        ("STRIDED_SLICE", [numbers([5, 6, 7, 8]), *BOUNDS], int32(2), ("StridedSliceOptions", {})),
        ("STRIDED_SLICE", [numbers([5, 6, 7]), *BOUNDS], int32(), ("StridedSliceOptions", {"ShrinkAxisMask": 1})),
        ("SUB", [numbers([1, 2]), numbers(5)], int32(2), ("SubOptions", {})),
    ],
)
def test_whole_numbers_are_computed(code: str, inputs: Any, output: Spec, options: Options | None) -> None:
    assert one(code, inputs, output, options).check() == COPY


def test_floats_and_long_tensors_are_left_to_the_devices() -> None:
    constants = [np.array([1, 2], np.float32)] * 2
    assert one("ADD", constants, floats(2), ("AddOptions", {})).check() == ["ADD"]
    assert one("ADD", [numbers(range(2000)), numbers(5)], int32(2000), ("AddOptions", {})).check() == ["ADD"]


def test_what_cannot_be_computed_is_refused() -> None:
    clipped = one("ADD", [numbers([-1]), numbers([0])], int32(1), ("AddOptions", {"FusedActivationFunction": 1}))
    assert clipped.refusal() == "fused activation 1 on integers"
    options = ("GatherOptions", {"Axis": 1, "BatchDims": 1})
    assert (
        one("GATHER", [numbers([[5, 6]]), numbers([[1]])], int32(1, 1), options).refusal() == "batch axes 1 on integers"
    )
    node = one("GATHER", [numbers([5, 6, 7]), numbers(3)], int32(), ("GatherOptions", {"Axis": 0}))
    assert "it cannot be computed" in node.refusal()
