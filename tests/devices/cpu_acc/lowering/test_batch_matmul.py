from __future__ import annotations

import pytest

from nnhal.operations._types import F16, F32, I32, Q8AS
from nnhal.types import OperandType, OperationType
from tests.support.agreement import assert_single_agrees, like


@pytest.mark.parametrize("code", [F32, F16, I32, Q8AS])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)])
def test_products_of_matrices(transposed: tuple[bool, bool], code: OperandType) -> None:
    first = (2, 4, 3) if transposed[0] else (2, 3, 4)
    second = (2, 5, 4) if transposed[1] else (2, 4, 5)
    output = like(code, scale=1.0 if code == Q8AS else 0.0)
    assert_single_agrees(OperationType.BATCH_MATMUL, code, [first, second], transposed, output)
