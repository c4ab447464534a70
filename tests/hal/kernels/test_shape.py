from __future__ import annotations

import numpy as np

from nnhal.operations._types import B8, F32, I32, INT32
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import absent, integers, output, tensor


def test_elements_stay_and_axes_of_one_go() -> None:
    (result,) = compute(OperationType.SQUEEZE, [tensor(F32, [[[1], [2]]]), absent(I32)], output(F32))
    assert result.tolist() == [1, 2]
    (empty,) = compute(OperationType.SQUEEZE, [tensor(F32, np.zeros((1, 0, 1))), tensor(I32, [-1])], output(F32))
    assert empty.shape == (1, 0)


def test_elements_stay_in_order() -> None:
    (result,) = compute(OperationType.EXPAND_DIMS, [tensor(I32, [[1, 2], [3, 4]]), *integers(-2)], output(I32))
    assert result.tolist() == [[[1, 2]], [[3, 4]]]


def test_axes_are_counted_even_where_they_are_empty() -> None:
    (result,) = compute(OperationType.RANK, [tensor(B8, np.zeros((2, 0, 1)))], output(INT32))
    assert (result.shape, int(result)) == ((), 3)
