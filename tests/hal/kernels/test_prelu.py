from __future__ import annotations

import numpy as np

from nnhal.operations._types import F32, Q8A
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import output, tensor


def test_negative_values_are_multiplied_by_their_channel_s_alpha() -> None:
    (result,) = compute(OperationType.PRELU, [tensor(F32, [[-1, -2], [3, -4]]), tensor(F32, [0.5, 2])], output(F32))
    assert result.tolist() == [[-0.5, -4], [3, -8]]


def test_three_quantisations() -> None:
    values, alpha = tensor(Q8A, [124, 132], 0.5, 128), tensor(Q8A, [4, 4], 0.25, 2)  # -2 and 2, times 0.5
    (result,) = compute(OperationType.PRELU, [values, alpha], output(Q8A, (), 0.125, 100))
    np.testing.assert_array_equal(result, [92, 116])
