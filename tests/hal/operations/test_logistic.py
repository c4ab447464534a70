from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.types import OperandType, OperationType
from tests.support.operations import dimensions_of, open_tensor, output

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
