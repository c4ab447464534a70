from __future__ import annotations

import numpy as np

from nnhal.operations._types import F32, I32, Q8A
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import boolean, output, tensor

TO_SPACE, TO_BATCH = OperationType.BATCH_TO_SPACE_ND, OperationType.SPACE_TO_BATCH_ND
BLOCK = tensor(I32, [2, 3])
UNPADDED = tensor(I32, [[0, 0], [0, 0]])


def test_the_place_within_the_block_comes_before_the_image() -> None:
    values = np.arange(2 * 2 * 3).reshape(2, 2, 3, 1)
    (result,) = compute(TO_BATCH, [tensor(F32, values), BLOCK, UNPADDED], output(F32))
    assert result.ravel().tolist() == [0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11]


def test_the_two_undo_each_other_in_either_layout() -> None:
    values = np.arange(2 * 4 * 6 * 6).reshape(2, 4, 6, 6)
    for channels_first in (False, True):
        flag = boolean(channels_first)
        (small,) = compute(TO_BATCH, [tensor(F32, values), BLOCK, UNPADDED, flag], output(F32))
        (back,) = compute(TO_SPACE, [tensor(F32, small), BLOCK, flag], output(F32))
        np.testing.assert_array_equal(back, values)


def test_padding_is_the_logical_zero() -> None:
    images, paddings = tensor(Q8A, [[[[1], [2]]]], 0.5, 9), tensor(I32, [[1, 0], [0, 1]])
    (result,) = compute(TO_BATCH, [images, BLOCK, paddings], output(Q8A, (), 0.5, 9))
    assert result.ravel().tolist() == [9, 9, 9, 1, 2, 9]
