from __future__ import annotations

import numpy as np

from nnhal.operations._types import I32
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import output, tensor


def test_a_box_and_an_empty_one() -> None:
    values = np.arange(24).reshape(2, 3, 4)
    inputs = [tensor(I32, values), tensor(I32, [1, 0, 1]), tensor(I32, [1, -1, 2])]
    (box,) = compute(OperationType.SLICE, inputs, output(I32))
    np.testing.assert_array_equal(box, values[1:, :, 1:3])
    inputs = [tensor(I32, values), tensor(I32, [2, 0, 0]), tensor(I32, [-1, 3, 4])]
    (empty,) = compute(OperationType.SLICE, inputs, output(I32))
    assert empty.shape == (0, 3, 4)
