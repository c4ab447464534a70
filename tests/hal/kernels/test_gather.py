from __future__ import annotations

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32, I32
from nnhal.types import ErrorStatus, OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, tensor

VALUES = tensor(F32, [[1, 2, 3], [4, 5, 6]])


def test_indices_of_any_rank_pick_slices() -> None:
    (result,) = compute(OperationType.GATHER, [VALUES, *integers(-1), tensor(I32, [[2, 0], [1, 1]])], output(F32))
    assert result.tolist() == [[[3, 1], [2, 2]], [[6, 4], [5, 5]]]
    (empty,) = compute(OperationType.GATHER, [VALUES, *integers(0), tensor(I32, np.zeros((0, 2)))], output(F32))
    assert empty.shape == (0, 2, 3)


@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_outside_the_axis_is_refused(index: int) -> None:
    with pytest.raises(HalError, match=rf"indices: index {index}, expected one in \[0, 3\)") as caught:
        compute(OperationType.GATHER, [VALUES, *integers(1), tensor(I32, [0, index])], output(F32))
    assert caught.value.status == ErrorStatus.INVALID_ARGUMENT
