from __future__ import annotations

import numpy as np

from nnhal.operations._types import F32, I32
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import absent, output, tensor

VALUES = np.arange(24).reshape(2, 3, 4)


def test_axes_are_permuted_or_reversed() -> None:
    (permuted,) = compute(OperationType.TRANSPOSE, [tensor(F32, VALUES), tensor(I32, [1, 2, 0])], output(F32))
    np.testing.assert_array_equal(permuted, VALUES.transpose(1, 2, 0))
    (reversed_,) = compute(OperationType.TRANSPOSE, [tensor(F32, VALUES), absent(I32)], output(F32))
    np.testing.assert_array_equal(reversed_, VALUES.T)
