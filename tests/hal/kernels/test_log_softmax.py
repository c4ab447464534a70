from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations._types import F16, F32, scalar_float
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, scalar, tensor


@pytest.mark.parametrize("main", [F16, F32])
@pytest.mark.parametrize(("axis", "beta"), [(-1, 1.0), (0, 2.0), (1, -0.5)])
def test_the_exponentials_of_the_result_sum_up_to_1(main: OperandType, axis: int, beta: float) -> None:
    logits = np.array([[1.0, 2.0, 3.0], [0.5, -4.0, 0.0]])
    inputs = [tensor(main, logits), scalar(scalar_float(main), beta), *integers(axis)]
    (result,) = compute(OperationType.LOG_SOFTMAX, inputs, output(main))
    powers = np.exp(logits * beta)
    np.testing.assert_allclose(result, np.log(powers / powers.sum(axis, keepdims=True)), rtol=2e-3, atol=1e-6)


def test_large_logits_do_not_overflow() -> None:
    inputs = [tensor(F32, [[1000, 999]]), scalar(scalar_float(F32), 1), *integers(1)]
    (result,) = compute(OperationType.LOG_SOFTMAX, inputs, output(F32))
    np.testing.assert_allclose(result, [[-0.3132617, -1.3132617]], rtol=1e-5)
