"""Operators that fill, repeat, reverse or sort tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnhal_frontends.tflite import import_tflite
from tests.support.onnx_models import by_cpu_ref
from tests.support.tflite_files import Spec, booleans, floats, int8
from tests.support.tflite_operators import numbers, one


def test_tensors_are_tiled() -> None:
    assert one("TILE", [floats(2, 3), numbers([2, 1])], floats(4, 3)).check() == ["TILE"]


@pytest.mark.parametrize(("kind", "expected"), [(floats, ["RESHAPE", "TILE"]), (booleans, ["LOGICAL_OR"])])
def test_tensors_are_broadcast(kind: Any, expected: list[str]) -> None:
    node = one("BROADCAST_TO", [kind(3, 1), numbers([2, 3, 2])], kind(2, 3, 2), version=2)
    assert node.check() == expected


@pytest.mark.parametrize(
    ("shape", "value", "output"),
    [
        (numbers([2, 3]), np.array(4, np.float32), floats(2, 3)),
        (numbers([2, 3], np.int64), numbers(4, np.int64), Spec([2, 3], np.int64)),
    ],
)
def test_tensors_are_filled(shape: Any, value: Any, output: Spec) -> None:
    assert one("FILL", [shape, value], output).check() == ["FILL"]


def test_quantised_tensors_are_not_filled() -> None:
    node = one("FILL", [numbers([2]), (numbers(4), int8())], int8(2))
    assert node.refusal() == "1 values of TENSOR_QUANT8_ASYMM_SIGNED"


def test_tensors_are_reversed_along_every_axis() -> None:
    assert one("REVERSE_V2", [int8(2, 3, 4), numbers([-1])], int8(2, 3, 4)).check() == ["REVERSE"]
    # LiteRT takes neighbouring axes only.
    node = one("REVERSE_V2", [floats(2, 3, 4), numbers([2, 0])], floats(2, 3, 4))
    (reversed_twice,) = by_cpu_ref(import_tflite(node.file()), node.arrays())
    np.testing.assert_array_equal(reversed_twice, node.arrays()["x0"][::-1, :, ::-1])
