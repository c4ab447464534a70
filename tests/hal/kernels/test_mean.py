from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, tensor

I32 = OperandType.TENSOR_INT32
VALUES = np.arange(12.0).reshape(2, 3, 2)


@pytest.mark.parametrize(
    ("axes", "keep", "expected"),
    [
        ([1, -2], 0, VALUES.mean(axis=1)),
        ([0, 2], 1, VALUES.mean(axis=(0, 2), keepdims=True)),
        ([], 0, VALUES),
        ([0, 1, 2], 0, np.array([5.5])),
    ],
)
def test_axes_are_averaged(axes: list[int], keep: int, expected: Array) -> None:
    for code in (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16):
        inputs = [tensor(code, VALUES), tensor(I32, np.array(axes, np.int32)), *integers(keep)]
        assert compute(OperationType.MEAN, inputs, output(code))[0].tolist() == expected.tolist()


def test_quantised_averages_round_half_away() -> None:
    code = OperandType.TENSOR_QUANT8_ASYMM_SIGNED
    inputs = [tensor(code, [[1, 2], [-1, -2], [127, 126]], 0.5, 4), tensor(I32, [1]), *integers(0)]
    assert compute(OperationType.MEAN, inputs, output(code, (), 0.5, 4))[0].tolist() == [2, -2, 127]
