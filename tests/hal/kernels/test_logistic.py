from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import output, tensor

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
