from __future__ import annotations

import pytest

from nnhal.operations._types import B8, F32, I32, Q8A
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.operations import output, tensor

O = OperationType  # noqa: E741


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (O.EQUAL, [0, 1, 0]),
        (O.GREATER, [0, 0, 1]),
        (O.GREATER_EQUAL, [0, 1, 1]),
        (O.LESS, [1, 0, 0]),
        (O.LESS_EQUAL, [1, 1, 0]),
        (O.NOT_EQUAL, [1, 0, 1]),
    ],
)
def test_each_comparison(code: OperationType, expected: list[int]) -> None:
    large = 2**24  # neighbours that float32 does not tell apart
    (integers,) = compute(code, [tensor(I32, [large, large + 1, large + 2]), tensor(I32, [large + 1])], output(B8))
    assert integers.tolist() == expected
    (floats,) = compute(code, [tensor(F32, [[1.0, 2.0, 3.0]]), tensor(F32, [2.0])], output(B8))
    assert floats.tolist() == [expected]
    # 1.5, 2 and 2.5 against 2
    (quantised,) = compute(code, [tensor(Q8A, [3, 4, 5], 0.5), tensor(Q8A, [138], 0.2, 128)], output(B8))
    assert quantised.tolist() == expected


def test_booleans_compare_by_truth() -> None:
    (result,) = compute(O.EQUAL, [tensor(B8, [0, 1, 255]), tensor(B8, [0, 2, 0])], output(B8))
    assert result.tolist() == [1, 1, 0]


def test_nan_equals_nothing() -> None:
    (result,) = compute(O.EQUAL, [tensor(F32, [float("nan")])] * 2, output(B8))
    assert result.tolist() == [0]
