from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, tensor

Q8A = OperandType.TENSOR_QUANT8_ASYMM
Q8AS = OperandType.TENSOR_QUANT8_ASYMM_SIGNED
F32 = OperandType.TENSOR_FLOAT32


@pytest.mark.parametrize(("code", "low"), [(Q8A, 0), (Q8AS, -128)])
@pytest.mark.parametrize(
    ("operation", "function"),
    [(OperationType.ADD, np.add), (OperationType.SUB, np.subtract), (OperationType.MUL, np.multiply)],
)
def test_quantised_results_are_the_real_ones_rounded(
    operation: OperationType, function: Callable[[Array, Array], Array], code: OperandType, low: int
) -> None:
    first, second = np.meshgrid(*[np.arange(low, low + 256, 3)] * 2)
    scales, zero_points = (0.031, 0.0127), (low + 120, low + 131)
    reals = function((first - zero_points[0]) * scales[0], (second - zero_points[1]) * scales[1])
    (result,) = compute(
        operation,
        [tensor(code, v, s, z) for v, s, z in zip((first, second), scales, zero_points, strict=True)] + integers(0),
        output(code, (), 0.05, low + 128),
    )
    steps = reals / 0.05
    clear = np.abs(np.abs(steps) % 1 - 0.5) > 2.0**-6  # what is nearly a half may go either way: it is rounded twice
    expected = np.clip(np.floor(steps + 0.5) + low + 128, low, low + 255)
    np.testing.assert_array_equal(result[clear], expected[clear])
    assert clear.mean() > 0.9


def test_the_activation_clamps_quantised_results() -> None:
    inputs = [tensor(Q8A, [0, 10, 200], 1.0, 10), tensor(Q8A, [10], 1.0, 10), *integers(3)]
    assert compute(OperationType.ADD, inputs, output(Q8A, (), 1.0, 10))[0].tolist() == [10, 10, 16]


def test_integers_divide_towards_minus_infinity() -> None:
    inputs = [tensor(OperandType.TENSOR_INT32, v) for v in ([7, -7, 7, -7], [2, 2, -2, -2])]
    results = compute(OperationType.DIV, [*inputs, *integers(0)], output(OperandType.TENSOR_INT32))
    assert results[0].tolist() == [3, -4, -4, 3]


def test_empty_tensors_broadcast() -> None:
    for code, scale in ((F32, 0.0), (Q8A, 1.0)):
        inputs = [tensor(code, np.zeros((0, 3)), scale), tensor(code, np.zeros((1, 1)), scale), *integers(0)]
        assert compute(OperationType.ADD, inputs, output(code, (), scale))[0].shape == (0, 3)
