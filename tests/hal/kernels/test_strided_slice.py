from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import F32, I32
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, tensor

VALUES = np.arange(20.0).reshape(4, 5)


def sliced(begin: list[int], end: list[int], strides: list[int], masks: tuple[int, int, int] = (0, 0, 0)) -> Array:
    inputs = [tensor(F32, VALUES), *(tensor(I32, v) for v in (begin, end, strides)), *integers(*masks)]
    (result,) = compute(OperationType.STRIDED_SLICE, inputs, output(F32))
    return result


@pytest.mark.parametrize(
    ("begin", "end", "strides", "expected"),
    [
        ([0, 1], [4, -1], [2, 1], VALUES[0:4:2, 1:-1]),
        ([-1, 9], [-9, 0], [-1, -3], VALUES[::-1, 4:0:-3]),
        ([1, 3], [3, 3], [1, 1], VALUES[1:3, 3:3]),
        ([-9, 0], [-9, 5], [-1, 1], VALUES[0:0]),
    ],
)
def test_both_directions(begin: list[int], end: list[int], strides: list[int], expected: Array) -> None:
    np.testing.assert_array_equal(sliced(begin, end, strides), expected)


def test_masks() -> None:
    np.testing.assert_array_equal(sliced([3, 3], [1, 1], [1, -1], masks=(1, 2, 0)), VALUES[:1, 3::-1])
    np.testing.assert_array_equal(sliced([2, 0], [3, 5], [1, 2], masks=(0, 0, 1)), VALUES[2, ::2])
    np.testing.assert_array_equal(sliced([-1, -1], [4, 5], [1, 1], masks=(0, 0, 3)), [19])
