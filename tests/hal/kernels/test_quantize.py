from __future__ import annotations

import pytest

from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import output, per_channel, tensor

F16, F32 = OperandType.TENSOR_FLOAT16, OperandType.TENSOR_FLOAT32
Q8A, Q8AS = OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED


@pytest.mark.parametrize("code", [F32, F16])
@pytest.mark.parametrize(("target", "low"), [(Q8A, 0), (Q8AS, -128)])
def test_reals_are_rounded_half_away_and_clamped(code: OperandType, target: OperandType, low: int) -> None:
    (result,) = compute(
        OperationType.QUANTIZE, [tensor(code, [0.25, -0.25, 0.2, 900.0, -900.0])], output(target, (), 0.5, low + 10)
    )
    assert result.tolist() == [low + 11, low + 9, low + 10, low + 255, low]


@pytest.mark.parametrize("target", [F32, F16])
def test_quantised_values_become_what_they_stand_for(target: OperandType) -> None:
    for given, expected in (
        (tensor(Q8A, [0, 10, 255], 0.5, 10), [-5.0, 0.0, 122.5]),
        (tensor(Q8AS, [-128, 127], 0.5, -1), [-63.5, 64.0]),
        (tensor(OperandType.TENSOR_QUANT8_SYMM, [-128, 2], 0.25), [-32.0, 0.5]),
        (per_channel([[2, 2], [4, 4]], [0.5, 2.0], 0), [[1.0, 1.0], [8.0, 8.0]]),
        (per_channel([[2, 2], [4, 4]], [0.5, 2.0], 1), [[1.0, 4.0], [2.0, 8.0]]),
    ):
        assert compute(OperationType.DEQUANTIZE, [given], output(target))[0].tolist() == expected
