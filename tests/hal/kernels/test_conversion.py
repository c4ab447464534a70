from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnhal.operations._types import B8, F16, F32, I32, Q8A, Q8AS, Q16A
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import output, per_channel, tensor


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


QUANTIZE_F16, QUANTIZE_F32 = OperandType.TENSOR_FLOAT16, OperandType.TENSOR_FLOAT32
QUANTIZE_Q8A, QUANTIZE_Q8AS = OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED


@pytest.mark.parametrize("code", [QUANTIZE_F32, QUANTIZE_F16])
@pytest.mark.parametrize(("target", "low"), [(QUANTIZE_Q8A, 0), (QUANTIZE_Q8AS, -128)])
def test_reals_are_rounded_half_to_even_and_clamped(code: OperandType, target: OperandType, low: int) -> None:
    reals = [0.25, -0.25, 0.75, 1.25, -0.75, 0.2, 900.0, -900.0, np.inf, -np.inf, np.nan]
    (result,) = compute(OperationType.QUANTIZE, [tensor(code, reals)], output(target, (), 0.5, low + 10))
    assert (result.astype(int) - low).tolist() == [10, 10, 12, 12, 8, 10, 255, 0, 255, 0, 0]


@pytest.mark.parametrize("target", [QUANTIZE_F32, QUANTIZE_F16])
def test_quantised_values_become_what_they_stand_for(target: OperandType) -> None:
    for given, expected in (
        (tensor(QUANTIZE_Q8A, [0, 10, 255], 0.5, 10), [-5.0, 0.0, 122.5]),
        (tensor(QUANTIZE_Q8AS, [-128, 127], 0.5, -1), [-63.5, 64.0]),
        (tensor(OperandType.TENSOR_QUANT8_SYMM, [-128, 2], 0.25), [-32.0, 0.5]),
        (per_channel([[2, 2], [4, 4]], [0.5, 2.0], 0), [[1.0, 1.0], [8.0, 8.0]]),
        (per_channel([[2, 2], [4, 4]], [0.5, 2.0], 1), [[1.0, 4.0], [2.0, 8.0]]),
    ):
        assert compute(OperationType.DEQUANTIZE, [given], output(target))[0].tolist() == expected
