from __future__ import annotations

import numpy as np

from nnhal.operations._types import F32, FLOAT32
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import output, scalar, tensor


def test_negative_values_saturate_at_minus_alpha() -> None:
    (result,) = compute(OperationType.ELU, [tensor(F32, [-100, -1e-4, 0, 2]), scalar(FLOAT32, 0.5)], output(F32))
    np.testing.assert_allclose(result, [-0.5, -0.5e-4 + 0.25e-8, 0, 2], rtol=1e-6)
