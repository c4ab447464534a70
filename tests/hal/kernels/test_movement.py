from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations._types import F32, I32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import Given, absent, boolean, integers, output, scalar, tensor

VALUES = np.arange(24).reshape(2, 3, 4)


def test_axes_are_permuted_or_reversed() -> None:
    (permuted,) = compute(OperationType.TRANSPOSE, [tensor(F32, VALUES), tensor(I32, [1, 2, 0])], output(F32))
    np.testing.assert_array_equal(permuted, VALUES.transpose(1, 2, 0))
    (reversed_,) = compute(OperationType.TRANSPOSE, [tensor(F32, VALUES), absent(I32)], output(F32))
    np.testing.assert_array_equal(reversed_, VALUES.T)


def test_one_axis_is_turned_round() -> None:
    (result,) = compute(OperationType.REVERSE, [tensor(I32, [[1, 2], [3, 4]]), tensor(I32, [1])], output(I32))
    assert result.tolist() == [[2, 1], [4, 3]]


def test_axes_repeat_as_a_whole() -> None:
    (result,) = compute(OperationType.TILE, [tensor(I32, [[1, 2]]), tensor(I32, [2, 2])], output(I32))
    assert result.tolist() == [[1, 2, 1, 2], [1, 2, 1, 2]]
    (empty,) = compute(OperationType.TILE, [tensor(I32, [[1, 2]]), tensor(I32, [3, 0])], output(I32))
    assert empty.shape == (3, 0)


PADDINGS = tensor(OperandType.TENSOR_INT32, [[1, 2]])


@pytest.mark.parametrize(
    ("code", "scale", "zero_point", "border"),
    [
        (OperandType.TENSOR_FLOAT32, 0.0, 0, 0),
        (OperandType.TENSOR_FLOAT16, 0.0, 0, 0),
        (OperandType.TENSOR_QUANT8_ASYMM, 0.5, 9, 9),
        (OperandType.TENSOR_QUANT8_ASYMM_SIGNED, 0.5, -9, -9),
    ],
)
def test_the_border_is_the_logical_zero(code: OperandType, scale: float, zero_point: int, border: int) -> None:
    inputs = [tensor(code, [5, 6], scale, zero_point), PADDINGS]
    (result,) = compute(OperationType.PAD, inputs, output(code, (), scale, zero_point))
    assert result.tolist() == [border, 5, 6, border, border]


@pytest.mark.parametrize(
    ("code", "scale", "value"),
    [
        (OperandType.TENSOR_FLOAT32, 0.0, scalar(OperandType.FLOAT32, -7.5)),
        (OperandType.TENSOR_FLOAT16, 0.0, scalar(OperandType.FLOAT16, -7.5)),
        (OperandType.TENSOR_QUANT8_ASYMM, 0.5, scalar(OperandType.INT32, 200)),
    ],
)
def test_the_border_is_the_given_value(code: OperandType, scale: float, value: Given) -> None:
    (result,) = compute(OperationType.PAD_V2, [tensor(code, [5, 6], scale), PADDINGS, value], output(code, (), scale))
    assert result.tolist() == [value.value, 5, 6, value.value, value.value]


REFLECT, SYMMETRIC = 0, 1


@pytest.mark.parametrize(("mode", "expected"), [(REFLECT, [3, 2, 1, 2, 3, 2]), (SYMMETRIC, [2, 1, 1, 2, 3, 3])])
def test_the_edge_is_repeated_or_not(mode: int, expected: list[int]) -> None:
    inputs = [tensor(F32, [1, 2, 3]), tensor(I32, [[2, 1]]), *integers(mode)]
    (result,) = compute(OperationType.MIRROR_PAD, inputs, output(F32))
    assert result.tolist() == expected


@pytest.mark.parametrize("mode", [REFLECT, SYMMETRIC])
def test_other_axes_of_an_empty_tensor_may_be_padded(mode: int) -> None:
    inputs = [tensor(F32, np.zeros((0, 3))), tensor(I32, [[0, 0], [1, 2]]), *integers(mode)]
    (result,) = compute(OperationType.MIRROR_PAD, inputs, output(F32))
    assert result.shape == (0, 6)


BATCH_SPACE_TO_SPACE, TO_BATCH = OperationType.BATCH_TO_SPACE_ND, OperationType.SPACE_TO_BATCH_ND
BLOCK = tensor(I32, [2, 3])
UNPADDED = tensor(I32, [[0, 0], [0, 0]])


def test_the_place_within_the_block_comes_before_the_image() -> None:
    values = np.arange(2 * 2 * 3).reshape(2, 2, 3, 1)
    (result,) = compute(TO_BATCH, [tensor(F32, values), BLOCK, UNPADDED], output(F32))
    assert result.ravel().tolist() == [0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11]


def test_batch_space_the_two_undo_each_other_in_either_layout() -> None:
    values = np.arange(2 * 4 * 6 * 6).reshape(2, 4, 6, 6)
    for channels_first in (False, True):
        flag = boolean(channels_first)
        (small,) = compute(TO_BATCH, [tensor(F32, values), BLOCK, UNPADDED, flag], output(F32))
        (back,) = compute(BATCH_SPACE_TO_SPACE, [tensor(F32, small), BLOCK, flag], output(F32))
        np.testing.assert_array_equal(back, values)


def test_padding_is_the_logical_zero() -> None:
    images, paddings = tensor(Q8A, [[[[1], [2]]]], 0.5, 9), tensor(I32, [[1, 0], [0, 1]])
    (result,) = compute(TO_BATCH, [images, BLOCK, paddings], output(Q8A, (), 0.5, 9))
    assert result.ravel().tolist() == [9, 9, 9, 1, 2, 9]


DEPTH_SPACE_TO_SPACE, TO_DEPTH = OperationType.DEPTH_TO_SPACE, OperationType.SPACE_TO_DEPTH


def test_channels_become_a_block_row_by_row() -> None:
    (result,) = compute(
        DEPTH_SPACE_TO_SPACE, [tensor(F32, [[[[1, 10, 2, 20, 3, 30, 4, 40]]]]), *integers(2)], output(F32)
    )
    assert result.tolist() == [[[[1, 10], [2, 20]], [[3, 30], [4, 40]]]]


def test_depth_space_the_two_undo_each_other_in_either_layout() -> None:
    values = np.arange(2 * 4 * 6 * 8).reshape(2, 4, 6, 8)
    for channels_first in (False, True):
        flag = boolean(channels_first)
        (deep,) = compute(TO_DEPTH, [tensor(F32, values), *integers(2), flag], output(F32))
        (back,) = compute(DEPTH_SPACE_TO_SPACE, [tensor(F32, deep), *integers(2), flag], output(F32))
        np.testing.assert_array_equal(back, values)


def test_channels_first_is_the_same_transposed() -> None:
    values = np.arange(2 * 4 * 6 * 3).reshape(2, 4, 6, 3)
    (last,) = compute(TO_DEPTH, [tensor(F32, values), *integers(2)], output(F32))
    (first,) = compute(TO_DEPTH, [tensor(F32, values.transpose(0, 3, 1, 2)), *integers(2), boolean(True)], output(F32))
    np.testing.assert_array_equal(first.transpose(0, 2, 3, 1), last)


def test_no_images_give_none() -> None:
    (result,) = compute(DEPTH_SPACE_TO_SPACE, [tensor(F32, np.zeros((0, 1, 2, 4))), *integers(2)], output(F32))
    assert result.shape == (0, 2, 4, 1)


@pytest.mark.parametrize("axis", [1, -1])
def test_groups_are_read_across(axis: int) -> None:
    inputs = [tensor(Q8AS, [[0, 1, 2, 3, 4, 5]], 0.5, 1), *integers(3, axis)]
    (result,) = compute(OperationType.CHANNEL_SHUFFLE, inputs, output(Q8AS, (), 0.5, 1))
    assert result.tolist() == [[0, 2, 4, 1, 3, 5]]
