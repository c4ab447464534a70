from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import I32, Q8A, Q16S
from nnhal.types import OperationType
from tests.support.kernels import compute
from tests.support.lstm import sigmoid
from tests.support.operations import Given, output, tensor

RNG = np.random.default_rng(7)
BATCH = 3
VALUES, CELL = (1 / 128, 128), (2.0**-11, 0)
WEIGHTS = (0.01, 100)


@pytest.mark.parametrize(("inputs", "units"), [(2, 4), (5, 3), (4, 4)])
def test_a_step_is_near_that_of_a_cell_in_floats(inputs: int, units: int) -> None:
    def quantized(shape: tuple[int, ...], quantization: tuple[float, int]) -> Given:
        return tensor(Q8A, RNG.integers(0, 256, shape), *quantization)

    step, state = quantized((BATCH, inputs), VALUES), quantized((BATCH, units), VALUES)
    weights = [quantized((units, inputs), WEIGHTS) for _ in range(4)]
    recurrent = [quantized((units, units), WEIGHTS) for _ in range(4)]
    biases = [tensor(I32, RNG.integers(-20000, 20000, units), WEIGHTS[0] / 128) for _ in range(4)]
    memory = tensor(Q16S, RNG.integers(-4000, 4000, (BATCH, units)), *CELL)
    cell, result = compute(
        OperationType.QUANTIZED_16BIT_LSTM,
        [step, *weights, *recurrent, *biases, memory, state],
        output(Q16S, (), *CELL),
        output(Q8A, (), *VALUES),
    )

    def real(given: Given) -> Array:
        assert given.value is not None
        values: Array = (given.value - np.float64(given.operand.zero_point)) * given.operand.scale
        return values

    # The columns of the weights are joined the other way round than the values.
    values = np.hstack([real(step), real(state)])
    admit, forget, update, out = (
        values @ np.hstack([real(recurrent[i]), real(weights[i])]).T + real(biases[i]) for i in range(4)
    )
    expected = sigmoid(forget) * real(memory) + sigmoid(admit) * np.tanh(update)
    np.testing.assert_allclose(cell * CELL[0], expected, atol=4e-3)
    np.testing.assert_allclose((result - 128.0) / 128, sigmoid(out) * np.tanh(expected), atol=8e-3)


def test_a_saturated_cell_stays_within_16_bits() -> None:
    def full(shape: tuple[int, ...], value: int, quantization: tuple[float, int]) -> Given:
        return tensor(Q8A, np.full(shape, value), *quantization)

    cell, result = compute(
        OperationType.QUANTIZED_16BIT_LSTM,
        [
            full((1, 2), 255, VALUES),
            *(full((2, 2), 255, WEIGHTS) for _ in range(8)),
            *(tensor(I32, [1 << 20, 1 << 20], WEIGHTS[0] / 128) for _ in range(4)),
            tensor(Q16S, [[32767, 32767]], *CELL),
            full((1, 2), 255, VALUES),
        ],
        output(Q16S, (), *CELL),
        output(Q8A, (), *VALUES),
    )
    np.testing.assert_array_equal(cell, [[32767, 32767]])
    np.testing.assert_array_equal(result, [[255, 255]])
