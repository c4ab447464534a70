from __future__ import annotations

import numpy as np

from nnhal.operations._types import F32
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import boolean, integers, output, tensor

TO_SPACE, TO_DEPTH = OperationType.DEPTH_TO_SPACE, OperationType.SPACE_TO_DEPTH


def test_channels_become_a_block_row_by_row() -> None:
    (result,) = compute(TO_SPACE, [tensor(F32, [[[[1, 10, 2, 20, 3, 30, 4, 40]]]]), *integers(2)], output(F32))
    assert result.tolist() == [[[[1, 10], [2, 20]], [[3, 30], [4, 40]]]]


def test_the_two_undo_each_other_in_either_layout() -> None:
    values = np.arange(2 * 4 * 6 * 8).reshape(2, 4, 6, 8)
    for channels_first in (False, True):
        flag = boolean(channels_first)
        (deep,) = compute(TO_DEPTH, [tensor(F32, values), *integers(2), flag], output(F32))
        (back,) = compute(TO_SPACE, [tensor(F32, deep), *integers(2), flag], output(F32))
        np.testing.assert_array_equal(back, values)


def test_channels_first_is_the_same_transposed() -> None:
    values = np.arange(2 * 4 * 6 * 3).reshape(2, 4, 6, 3)
    (last,) = compute(TO_DEPTH, [tensor(F32, values), *integers(2)], output(F32))
    (first,) = compute(TO_DEPTH, [tensor(F32, values.transpose(0, 3, 1, 2)), *integers(2), boolean(True)], output(F32))
    np.testing.assert_array_equal(first.transpose(0, 2, 3, 1), last)


def test_no_images_give_none() -> None:
    (result,) = compute(TO_SPACE, [tensor(F32, np.zeros((0, 1, 2, 4))), *integers(2)], output(F32))
    assert result.shape == (0, 2, 4, 1)
