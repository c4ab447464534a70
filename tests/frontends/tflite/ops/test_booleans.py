"""Operators that move booleans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.support.tflite_files import Options, booleans, int32
from tests.support.tflite_operators import numbers, one

FLAGS = np.array([[True, False, True], [False, False, True]])


@pytest.mark.parametrize(
    ("code", "inputs", "outputs", "options"),
    [
        ("RESHAPE", [booleans(2, 6), numbers([12])], booleans(12), ("ReshapeOptions", {})),
        ("RESHAPE", [booleans(1, 1), numbers([])], booleans(), ("ReshapeOptions", {})),
        ("SQUEEZE", [booleans(1, 3, 1)], booleans(3), ("SqueezeOptions", {})),
        ("EXPAND_DIMS", [booleans(3), numbers(0)], booleans(1, 3), None),
        ("TRANSPOSE", [booleans(2, 3), numbers([1, 0])], booleans(3, 2), None),
        ("CONCATENATION", [booleans(1, 3), booleans(2, 3), FLAGS], booleans(5, 3), ("ConcatenationOptions", {})),
        ("UNPACK", [booleans(2, 3)], [booleans(3), booleans(3)], ("UnpackOptions", {"Num": 2})),
        ("SLICE", [booleans(4, 3), numbers([1, 0]), numbers([2, 2])], booleans(2, 2), None),
        ("GATHER", [booleans(4, 3), int32(2)], booleans(2, 3), ("GatherOptions", {})),
        ("TILE", [booleans(2, 3), numbers([1, 2])], booleans(2, 6), None),
        ("SELECT_V2", [booleans(2, 3), booleans(2, 3), FLAGS], booleans(2, 3), None),
    ],
)
def test_they_move_bytes(code: str, inputs: Sequence[Any], outputs: Any, options: Options | None) -> None:
    indexes = {1: [0, 1]} if code == "GATHER" else {}
    node = one(code, inputs, outputs, options, values=indexes)
    found = node.check(optimised=True)
    assert found[-1] == "NOT_EQUAL"
    assert "RUN" not in found
