from __future__ import annotations

import pytest

from nnhal.operations._types import F16, F32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from tests.support.agreement import assert_single_agrees


@pytest.mark.parametrize(("code", "value"), [(F32, 1.5), (F16, -2.0), (Q8A, 200), (Q8AS, -100)])
def test_a_given_value_surrounds(code: OperandType, value: float) -> None:
    (result,) = assert_single_agrees(OperationType.PAD_V2, code, [(2, 3)], [[[1, 0], [0, 2]], value])
    assert result[0, 0] == value
