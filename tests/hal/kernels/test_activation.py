from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import F16, F32, FLOAT32, scalar_float
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import integers, output, scalar, tensor

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


def test_negative_values_saturate_at_minus_alpha() -> None:
    (result,) = compute(OperationType.ELU, [tensor(F32, [-100, -1e-4, 0, 2]), scalar(FLOAT32, 0.5)], output(F32))
    np.testing.assert_allclose(result, [-0.5, -0.5e-4 + 0.25e-8, 0, 2], rtol=1e-6)


Q8A, Q8AS = OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED


def sigmoid(values: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-values)))


FUNCTIONS = [(OperationType.LOGISTIC, sigmoid, 1 / 256, 0), (OperationType.TANH, np.tanh, 1 / 128, 128)]


@pytest.mark.parametrize(("operation", "function", "scale", "zero_point"), FUNCTIONS)
def test_reals_of_any_size(
    operation: OperationType, function: Callable[[Array], Array], scale: float, zero_point: int
) -> None:
    values = np.array([-700.0, -1.0, 0.0, 2.0, 700.0])
    for code, tolerance in ((OperandType.TENSOR_FLOAT32, 1e-6), (OperandType.TENSOR_FLOAT16, 1e-3)):
        (result,) = compute(operation, [tensor(code, values)], output(code))
        np.testing.assert_allclose(result, function(values), tolerance, tolerance)


@pytest.mark.parametrize(("operation", "function", "scale", "zero_point"), FUNCTIONS)
def test_every_quantised_value(
    operation: OperationType, function: Callable[[Array], Array], scale: float, zero_point: int
) -> None:
    for code, low in ((Q8A, 0), (Q8AS, -128)):
        values = np.arange(low, low + 256)
        (result,) = compute(
            operation, [tensor(code, values, 0.05, low + 100)], output(code, (), scale, low + zero_point)
        )
        expected = np.clip(
            np.floor(function((values - low - 100) * 0.05) / scale + 0.5) + zero_point + low, low, low + 255
        )
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("main", [F16, F32])
@pytest.mark.parametrize(("axis", "beta"), [(-1, 1.0), (0, 2.0), (1, -0.5)])
def test_the_exponentials_of_the_result_sum_up_to_1(main: OperandType, axis: int, beta: float) -> None:
    logits = np.array([[1.0, 2.0, 3.0], [0.5, -4.0, 0.0]])
    inputs = [tensor(main, logits), scalar(scalar_float(main), beta), *integers(axis)]
    (result,) = compute(OperationType.LOG_SOFTMAX, inputs, output(main))
    powers = np.exp(logits * beta)
    np.testing.assert_allclose(result, np.log(powers / powers.sum(axis, keepdims=True)), rtol=2e-3, atol=1e-6)


def test_large_logits_do_not_overflow() -> None:
    inputs = [tensor(F32, [[1000, 999]]), scalar(scalar_float(F32), 1), *integers(1)]
    (result,) = compute(OperationType.LOG_SOFTMAX, inputs, output(F32))
    np.testing.assert_allclose(result, [[-0.3132617, -1.3132617]], rtol=1e-5)
