from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations._types import F32, I32
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, tensor

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
