from __future__ import annotations

import numpy as np

from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, tensor

F32 = OperandType.TENSOR_FLOAT32
Q8A = OperandType.TENSOR_QUANT8_ASYMM


def test_the_input_comes_in_rows() -> None:
    values, weights = np.arange(12.0).reshape(1, 2, 3, 2), np.arange(8.0).reshape(2, 4)
    inputs = [tensor(F32, values), tensor(F32, weights), tensor(F32, [1.0, -500.0]), *integers(1)]
    expected = np.maximum(values.reshape(3, 4) @ weights.T + [1, -500], 0)
    assert compute(OperationType.FULLY_CONNECTED, inputs, output(F32))[0].tolist() == expected.tolist()


def test_quantised_rows() -> None:
    inputs = [
        tensor(Q8A, [[130, 126]], 0.5, 128),
        tensor(Q8A, [[3, 1], [1, 5]], 2.0, 2),
        tensor(OperandType.TENSOR_INT32, [4, 0], 1.0),
        *integers(0),
    ]
    assert compute(OperationType.FULLY_CONNECTED, inputs, output(Q8A, (), 1.0, 50))[0].tolist() == [[58, 42]]


def test_an_empty_batch_stays_empty() -> None:
    inputs = [tensor(F32, np.zeros((0, 4))), tensor(F32, np.zeros((5, 4))), tensor(F32, np.zeros(5)), *integers(0)]
    assert compute(OperationType.FULLY_CONNECTED, inputs, output(F32))[0].shape == (0, 5)
