from __future__ import annotations

from nnhal.operations._types import I32
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import output, tensor


def test_axes_repeat_as_a_whole() -> None:
    (result,) = compute(OperationType.TILE, [tensor(I32, [[1, 2]]), tensor(I32, [2, 2])], output(I32))
    assert result.tolist() == [[1, 2, 1, 2], [1, 2, 1, 2]]
    (empty,) = compute(OperationType.TILE, [tensor(I32, [[1, 2]]), tensor(I32, [3, 0])], output(I32))
    assert empty.shape == (3, 0)
