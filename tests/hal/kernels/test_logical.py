from __future__ import annotations

import pytest

from nnhal.operations._types import B8
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import output, tensor


@pytest.mark.parametrize(
    ("code", "expected"),
    [(OperationType.LOGICAL_AND, [[0, 0], [0, 1]]), (OperationType.LOGICAL_OR, [[0, 1], [1, 1]])],
)
def test_any_byte_but_0_is_true(code: OperationType, expected: list[list[int]]) -> None:
    (result,) = compute(code, [tensor(B8, [[0], [2]]), tensor(B8, [0, 4])], output(B8))
    assert result.tolist() == expected
