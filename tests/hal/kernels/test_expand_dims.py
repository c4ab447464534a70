from __future__ import annotations

from nnhal.operations._types import I32
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, tensor


def test_elements_stay_in_order() -> None:
    (result,) = compute(OperationType.EXPAND_DIMS, [tensor(I32, [[1, 2], [3, 4]]), *integers(-2)], output(I32))
    assert result.tolist() == [[[1, 2]], [[3, 4]]]
