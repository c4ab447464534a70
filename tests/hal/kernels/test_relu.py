from __future__ import annotations

import pytest

from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import output, tensor

RELUS = [
    (OperationType.RELU, [0.0, 0.0, 0.5, 9.0]),
    (OperationType.RELU1, [-1.0, -0.5, 0.5, 1.0]),
    (OperationType.RELU6, [0.0, 0.0, 0.5, 6.0]),
]
VALUES = [-9.0, -0.5, 0.5, 9.0]


@pytest.mark.parametrize(("operation", "expected"), RELUS)
@pytest.mark.parametrize("code", [OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16])
def test_reals_are_clamped(operation: OperationType, expected: list[float], code: OperandType) -> None:
    assert compute(operation, [tensor(code, VALUES)], output(code))[0].tolist() == expected


@pytest.mark.parametrize(("operation", "expected"), RELUS)
@pytest.mark.parametrize(
    ("code", "zero_point"), [(OperandType.TENSOR_QUANT8_ASYMM, 100), (OperandType.TENSOR_QUANT8_ASYMM_SIGNED, -30)]
)
def test_quantised_values_are_clamped(
    operation: OperationType, expected: list[float], code: OperandType, zero_point: int
) -> None:
    values = tensor(code, [round(v / 0.25) + zero_point for v in VALUES], 0.25, zero_point)
    (result,) = compute(operation, [values], output(code, (), 0.25, zero_point))
    assert result.tolist() == [round(v / 0.25) + zero_point for v in expected]
