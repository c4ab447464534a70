from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations._types import F16, F32, Q8A, Q8AS
from nnhal.types import Operand, OperandType, OperationType
from tests.support.agreement import assert_agrees, assert_single_agrees, single

_OUTPUTS = {
    F32: Operand(F32),
    F16: Operand(F16),
    Q8A: Operand(Q8A, (), 1 / 256, 0),
    Q8AS: Operand(Q8AS, (), 1 / 256, -128),
}


@pytest.mark.parametrize("code", list(_OUTPUTS))
@pytest.mark.parametrize("beta", [1.0, 0.5])
@pytest.mark.parametrize("axis", [-1, 1])
def test_softmax_along_an_axis(axis: int, beta: float, code: OperandType) -> None:
    assert_single_agrees(OperationType.SOFTMAX, code, [(2, 3, 7)], [beta, axis], _OUTPUTS[code])


@pytest.mark.parametrize("code", [Q8A, Q8AS])
def test_certainty_is_the_largest_value_and_does_not_wrap_around(code: OperandType) -> None:
    model = single(OperationType.SOFTMAX, code, [(2, 3)], [1.0], _OUTPUTS[code])
    high, low = (255, 0) if code == Q8A else (127, -128)
    values = np.array([[high, low, low], [low, low, high]]).astype(np.uint8 if code == Q8A else np.int8)
    (result,) = assert_agrees(model, values)
    np.testing.assert_array_equal(result, values)


def test_logarithms() -> None:
    assert_single_agrees(OperationType.LOG_SOFTMAX, F32, [(2, 3, 7)], [2.0, 1])
