from __future__ import annotations

from nnhal.operations._types import I32
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import output, tensor


def test_one_axis_is_turned_round() -> None:
    (result,) = compute(OperationType.REVERSE, [tensor(I32, [[1, 2], [3, 4]]), tensor(I32, [1])], output(I32))
    assert result.tolist() == [[2, 1], [4, 3]]
