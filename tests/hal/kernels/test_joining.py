from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import F32, I32, Q8AS
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, tensor

Q8A = OperandType.TENSOR_QUANT8_ASYMM


def test_tensors_follow_one_another() -> None:
    inputs = [
        tensor(F32, [[1.0, 2.0]]),
        tensor(F32, np.zeros((1, 0))),
        tensor(F32, [[3.0]]),
        *integers(1),
    ]
    assert compute(OperationType.CONCATENATION, inputs, output(F32))[0].tolist() == [[1.0, 2.0, 3.0]]


def test_tensors_take_the_output_s_quantisation() -> None:
    inputs = [tensor(Q8A, [0, 10, 255], 0.5, 10), tensor(Q8A, [7, 250], 1.0, 7), *integers(0)]
    result = compute(OperationType.CONCATENATION, inputs, output(Q8A, (), 1.0, 7))[0]
    assert result.tolist() == [2, 7, 129, 7, 250]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_tensors_lie_side_by_side(axis: int) -> None:
    first = np.arange(6).reshape(2, 3)
    inputs = [*integers(axis), *(tensor(Q8AS, part, 0.5, 1) for part in (first, -first))]
    (result,) = compute(OperationType.PACK, inputs, output(Q8AS, (), 0.5, 1))
    np.testing.assert_array_equal(result, np.stack([first, -first], axis))


def test_parts_follow_each_other_along_the_axis() -> None:
    values = np.arange(12).reshape(2, 6)
    parts = compute(OperationType.SPLIT, [tensor(F32, values), *integers(-1, 3)], *[output(F32)] * 3)
    np.testing.assert_array_equal(np.concatenate(parts, 1), values)
    empty = compute(OperationType.SPLIT, [tensor(F32, np.zeros((2, 0))), *integers(1, 2)], *[output(F32)] * 2)
    assert [part.shape for part in empty] == [(2, 0), (2, 0)]


def test_a_box_and_an_empty_one() -> None:
    values = np.arange(24).reshape(2, 3, 4)
    inputs = [tensor(I32, values), tensor(I32, [1, 0, 1]), tensor(I32, [1, -1, 2])]
    (box,) = compute(OperationType.SLICE, inputs, output(I32))
    np.testing.assert_array_equal(box, values[1:, :, 1:3])
    inputs = [tensor(I32, values), tensor(I32, [2, 0, 0]), tensor(I32, [-1, 3, 4])]
    (empty,) = compute(OperationType.SLICE, inputs, output(I32))
    assert empty.shape == (0, 3, 4)


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
