from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnhal.operations._types import B8, F16, F32, I32, Q8A, Q8AS, Q16A
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import output, tensor


@pytest.mark.parametrize(
    ("source", "values", "target", "expected"),
    [
        (F32, [-1.9, 1.9, np.nan], I32, [-1, 1, 0]),
        (F32, [3e9, -np.inf, 0], I32, [2**31 - 1, -(2**31), 0]),
        (F32, [-0.5, 254.9, 300], Q8A, [0, 254, 255]),
        (F16, [-2, 3.5, np.inf], Q8A, [0, 3, 255]),
        (I32, [-5, 77, 256], Q8A, [0, 77, 255]),
        (I32, [2**24 + 1, -3, 0], F32, [2**24, -3, 0]),
        (F32, [1e6, 1.0, 0.1], F16, [np.inf, 1, np.float16(0.1)]),
        (Q8A, [0, 128, 255], F32, [0, 128, 255]),
        (Q8A, [0, 128, 255], I32, [0, 128, 255]),
        (Q8AS, [-128, 0, 127], Q8AS, [-128, 0, 127]),
        (Q16A, [0, 1, 65535], Q16A, [0, 1, 65535]),
        (B8, [0, 1, 255], B8, [0, 1, 255]),
    ],
)
def test_numbers_are_kept_where_the_type_has_them(
    source: OperandType, values: Any, target: OperandType, expected: Any
) -> None:
    def scale(code: OperandType) -> float:
        return 0.0 if code in (F16, F32, I32, B8) else 0.5

    (result,) = compute(OperationType.CAST, [tensor(source, values, scale(source))], output(target, (), scale(target)))
    np.testing.assert_array_equal(result, expected)
