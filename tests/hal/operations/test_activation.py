from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, FLOAT16, FLOAT32
from nnhal.types import OperandType, OperationType
from tests.support.operations import dimensions_of, integers, level_of, open_tensor, output, scalar


def test_alpha_has_the_tensor_s_precision() -> None:
    assert level_of(OperationType.ELU, [open_tensor(F16, (2,)), scalar(FLOAT16, 1)], output(F16, (2,))) == 4
    assert level_of(OperationType.ELU, [open_tensor(F32, (2,)), scalar(FLOAT32, 1)], output(F32, (2,))) == 4
    with pytest.raises(HalError, match=r"input 1 \(alpha\) is FLOAT32, expected FLOAT16"):
        level_of(OperationType.ELU, [open_tensor(F16, (2,)), scalar(FLOAT32, 1)], output(F16, (2,)))


Q8A = OperandType.TENSOR_QUANT8_ASYMM
Q8AS = OperandType.TENSOR_QUANT8_ASYMM_SIGNED


@pytest.mark.parametrize(
    ("operation", "code", "scale", "zero_point"),
    [
        (OperationType.LOGISTIC, Q8A, 1 / 256, 0),
        (OperationType.LOGISTIC, Q8AS, 1 / 256, -128),
        (OperationType.TANH, Q8A, 1 / 128, 128),
        (OperationType.TANH, Q8AS, 1 / 128, 0),
    ],
)
def test_the_output_has_the_one_quantisation_that_spans_the_function(
    operation: OperationType, code: OperandType, scale: float, zero_point: int
) -> None:
    inputs = [open_tensor(code, (2, 0), 0.1, 5)]
    assert dimensions_of(operation, inputs, output(code, scale=scale, zero_point=zero_point)) == ((2, 0),)
    with pytest.raises(HalError, match="expected"):
        dimensions_of(operation, inputs, output(code, scale=scale, zero_point=zero_point + 1))


def test_a_rank_that_becomes_known_late_is_checked_late() -> None:
    with pytest.raises(HalError, match="rank 5, expected 1 to 4"):
        dimensions_of(
            OperationType.LOGISTIC,
            [open_tensor(OperandType.TENSOR_FLOAT32, (1, 1, 1, 1, 1))],
            output(OperandType.TENSOR_FLOAT32),
        )


LOG_SOFTMAX = OperationType.LOG_SOFTMAX


def test_beta_and_axis_are_always_given() -> None:
    inputs = [open_tensor(F32, (2, 0, 3, 1, 5)), scalar(FLOAT32, 1), *integers(-5)]
    assert level_of(LOG_SOFTMAX, inputs, output(F32, (2, 4, 3, 1, 5))) == 3
    assert dimensions_of(LOG_SOFTMAX, inputs, output(F32)) == ((2, 0, 3, 1, 5),)
    with pytest.raises(HalError, match="got 2 inputs, expected 3"):
        level_of(LOG_SOFTMAX, inputs[:2], output(F32))
    with pytest.raises(HalError, match="axis 5"):
        dimensions_of(LOG_SOFTMAX, [*inputs[:2], *integers(5)], output(F32))
