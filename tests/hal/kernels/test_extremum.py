from __future__ import annotations

import pytest

from nnhal.operations._types import F32, I32, Q8AS
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import output, tensor


@pytest.mark.parametrize(
    ("code", "expected"), [(OperationType.MAXIMUM, [[1, 4], [3, 4]]), (OperationType.MINIMUM, [[1, 1], [1, 3]])]
)
def test_tensors_broadcast(code: OperationType, expected: list[list[int]]) -> None:
    for main in (F32, I32):
        (result,) = compute(code, [tensor(main, [[1], [3]]), tensor(main, [1, 4])], output(main))
        assert result.tolist() == expected


def test_large_integers_are_exact_whatever_their_scale() -> None:
    first, second = tensor(I32, [2**30 + 1], 0.5), tensor(I32, [2**30], 0.25)
    (result,) = compute(OperationType.MAXIMUM, [first, second], output(I32, (), 0.125))
    assert result.tolist() == [2**30 + 1]


def test_quantised_values_are_compared_and_put_out_as_reals() -> None:
    first, second = tensor(Q8AS, [10, -20], 0.5), tensor(Q8AS, [0, 0], 0.25, -4)  # 5 and -10 against 1
    (result,) = compute(OperationType.MAXIMUM, [first, second], output(Q8AS, (), 0.125, 3))
    assert result.tolist() == [43, 11]
    (saturated,) = compute(OperationType.MINIMUM, [first, second], output(Q8AS, (), 0.03125, 3))
    assert saturated.tolist() == [35, -128]
