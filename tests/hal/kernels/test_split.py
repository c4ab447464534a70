from __future__ import annotations

import numpy as np

from nnhal.operations._types import F32
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, tensor


def test_parts_follow_each_other_along_the_axis() -> None:
    values = np.arange(12).reshape(2, 6)
    parts = compute(OperationType.SPLIT, [tensor(F32, values), *integers(-1, 3)], *[output(F32)] * 3)
    np.testing.assert_array_equal(np.concatenate(parts, 1), values)
    empty = compute(OperationType.SPLIT, [tensor(F32, np.zeros((2, 0))), *integers(1, 2)], *[output(F32)] * 2)
    assert [part.shape for part in empty] == [(2, 0), (2, 0)]
