from __future__ import annotations

from nnhal.operations._types import F16, FLOAT16, I32, INT32
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import output, scalar, tensor


def test_every_element_is_the_value() -> None:
    (result,) = compute(OperationType.FILL, [tensor(I32, [2, 1]), scalar(INT32, 2**24 + 1)], output(I32))
    assert result.tolist() == [[2**24 + 1]] * 2
    (empty,) = compute(OperationType.FILL, [tensor(I32, [3, 0]), scalar(FLOAT16, 0.5)], output(F16))
    assert empty.shape == (3, 0)
