from __future__ import annotations

import numpy as np

from nnhal.operations._types import F32, I32
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import absent, output, tensor


def test_elements_stay_and_axes_of_one_go() -> None:
    (result,) = compute(OperationType.SQUEEZE, [tensor(F32, [[[1], [2]]]), absent(I32)], output(F32))
    assert result.tolist() == [1, 2]
    (empty,) = compute(OperationType.SQUEEZE, [tensor(F32, np.zeros((1, 0, 1))), tensor(I32, [-1])], output(F32))
    assert empty.shape == (1, 0)
