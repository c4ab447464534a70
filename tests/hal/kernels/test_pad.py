from __future__ import annotations

import pytest

from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import Given, output, scalar, tensor

PADDINGS = tensor(OperandType.TENSOR_INT32, [[1, 2]])


@pytest.mark.parametrize(
    ("code", "scale", "zero_point", "border"),
    [
        (OperandType.TENSOR_FLOAT32, 0.0, 0, 0),
        (OperandType.TENSOR_FLOAT16, 0.0, 0, 0),
        (OperandType.TENSOR_QUANT8_ASYMM, 0.5, 9, 9),
        (OperandType.TENSOR_QUANT8_ASYMM_SIGNED, 0.5, -9, -9),
    ],
)
def test_the_border_is_the_logical_zero(code: OperandType, scale: float, zero_point: int, border: int) -> None:
    inputs = [tensor(code, [5, 6], scale, zero_point), PADDINGS]
    (result,) = compute(OperationType.PAD, inputs, output(code, (), scale, zero_point))
    assert result.tolist() == [border, 5, 6, border, border]


@pytest.mark.parametrize(
    ("code", "scale", "value"),
    [
        (OperandType.TENSOR_FLOAT32, 0.0, scalar(OperandType.FLOAT32, -7.5)),
        (OperandType.TENSOR_FLOAT16, 0.0, scalar(OperandType.FLOAT16, -7.5)),
        (OperandType.TENSOR_QUANT8_ASYMM, 0.5, scalar(OperandType.INT32, 200)),
    ],
)
def test_the_border_is_the_given_value(code: OperandType, scale: float, value: Given) -> None:
    (result,) = compute(OperationType.PAD_V2, [tensor(code, [5, 6], scale), PADDINGS, value], output(code, (), scale))
    assert result.tolist() == [value.value, 5, 6, value.value, value.value]
