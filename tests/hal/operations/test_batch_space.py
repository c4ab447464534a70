from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32, I32, Q8A
from nnhal.types import OperationType
from tests.support.operations import boolean, dimensions_of, level_of, open_tensor, output, tensor

TO_SPACE, TO_BATCH = OperationType.BATCH_TO_SPACE_ND, OperationType.SPACE_TO_BATCH_ND
BLOCK = tensor(I32, [2, 3])
PADDINGS = tensor(I32, [[1, 0], [2, 1]])


def test_batches_become_pixels_in_either_layout() -> None:
    inputs = [open_tensor(F32, (12, 1, 0, 5)), BLOCK]
    assert level_of(TO_SPACE, inputs, output(F32, (2, 2, 3, 5))) == 2
    assert dimensions_of(TO_SPACE, inputs, output(F32)) == ((2, 2, 0, 5),)
    first = [open_tensor(F32, (12, 5, 1, 1)), BLOCK, boolean(True)]
    assert level_of(TO_SPACE, first, output(F32, (2, 5, 2, 3))) == 3
    assert dimensions_of(TO_SPACE, first, output(F32)) == ((2, 5, 2, 3),)


def test_padded_pixels_become_batches_in_either_layout() -> None:
    inputs = [open_tensor(F32, (0, 3, 3, 5)), BLOCK, PADDINGS]
    assert level_of(TO_BATCH, inputs, output(F32, (6, 2, 2, 5))) == 2
    assert dimensions_of(TO_BATCH, inputs, output(F32)) == ((0, 2, 2, 5),)
    first = [open_tensor(F32, (1, 5, 3, 0)), BLOCK, PADDINGS, boolean(True)]
    assert dimensions_of(TO_BATCH, first, output(F32)) == ((6, 5, 2, 0),)


def test_padding_with_a_zero_point_needs_level_3() -> None:
    inputs = [open_tensor(Q8A, (1, 3, 3, 5), 0.5, 7), BLOCK, PADDINGS]
    assert level_of(TO_BATCH, inputs, output(Q8A, (6, 2, 2, 5), 0.5, 7)) == 3


def test_blocks_and_paddings_that_do_not_fit_are_refused() -> None:
    images = open_tensor(F32, (4, 3, 3, 5))
    for block, message in (([2, 3], "the batch is 4"), ([2, 0], "block sizes"), ([2], "block sizes")):
        with pytest.raises(HalError, match=message):
            dimensions_of(TO_SPACE, [images, tensor(I32, block)], output(F32))
    for paddings, message in (([[0, 0], [0, 0]], "padded images of 3 x 3"), ([[1, 0], [0, -3]], "two pairs")):
        with pytest.raises(HalError, match=message):
            dimensions_of(TO_BATCH, [images, BLOCK, tensor(I32, paddings)], output(F32))
