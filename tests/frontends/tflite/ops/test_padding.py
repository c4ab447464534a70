"""Padding with constants and with reflections."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.tflite_files import Spec, floats, int8, uint8
from tests.support.tflite_operators import Given, numbers, one

PADDINGS = [[0, 1], [2, 0]]


@pytest.mark.parametrize("kind", [floats, int8])
@pytest.mark.parametrize("element_type", [np.int32, np.int64])
def test_zeros_around(kind: Any, element_type: Any) -> None:
    assert one("PAD", [kind(2, 3), numbers(PADDINGS, element_type)], kind(3, 5)).check() == ["PAD"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [(floats, np.array([3.0], np.float32)), (int8, (numbers(-7), int8())), (uint8, (numbers(7), uint8()))],
)
def test_another_number_around(kind: Any, value: Given) -> None:
    output: Spec = kind(3, 5)
    assert one("PADV2", [kind(2, 3), numbers(PADDINGS), value], output).check() == ["PAD_V2"]


@pytest.mark.parametrize("mode", [0, 1])
def test_the_tensor_itself_around(mode: int) -> None:
    node = one("MIRROR_PAD", [floats(2, 3), numbers(PADDINGS)], floats(3, 5), ("MirrorPadOptions", {"Mode": mode}))
    assert node.check() == ["MIRROR_PAD"]


def test_paddings_at_run_time() -> None:
    node = one("PAD", [floats(2, 3), Spec([2, 2], np.int32)], Spec([3, 5], signature=[-1, -1]), values={1: PADDINGS})
    assert node.check() == ["PAD"]
