from __future__ import annotations

import numpy as np

from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, tensor

Q8A = OperandType.TENSOR_QUANT8_ASYMM
F32 = OperandType.TENSOR_FLOAT32


def test_tensors_follow_one_another() -> None:
    inputs = [tensor(F32, [[1.0, 2.0]]), tensor(F32, np.zeros((1, 0))), tensor(F32, [[3.0]]), *integers(1)]
    assert compute(OperationType.CONCATENATION, inputs, output(F32))[0].tolist() == [[1.0, 2.0, 3.0]]


def test_tensors_take_the_output_s_quantisation() -> None:
    inputs = [tensor(Q8A, [0, 10, 255], 0.5, 10), tensor(Q8A, [7, 250], 1.0, 7), *integers(0)]
    result = compute(OperationType.CONCATENATION, inputs, output(Q8A, (), 1.0, 7))[0]
    assert result.tolist() == [2, 7, 130, 7, 250]
