from __future__ import annotations

import numpy as np
import pytest

from nnhal.kernels.lstm import layer_norm

WEIGHT_SCALE = 2.0**-15
GATE_SCALE = 2.0**-12
RNG = np.random.default_rng(6)


@pytest.mark.parametrize("spread", [100, 1000, 20000])
def test_rows_are_normalised_weighed_and_shifted(spread: int) -> None:
    values = RNG.integers(-spread, spread, (5, 8))
    weights = RNG.integers(1 << 12, 1 << 15, 8)
    bias = RNG.integers(-(1 << 24), 1 << 24, 8)
    normal = (values - values.mean(1, keepdims=True)) / values.std(1, keepdims=True)
    expected = normal * weights * WEIGHT_SCALE + bias * WEIGHT_SCALE / (1 << 10)
    np.testing.assert_allclose(layer_norm(values, weights, bias, WEIGHT_SCALE) * GATE_SCALE, expected, atol=5e-3)


def test_a_constant_row_gives_the_bias() -> None:
    bias = np.array([1 << 24, -(1 << 23), 0, 1 << 10])
    result = layer_norm(np.full((1, 4), 77), np.full(4, 1 << 14), bias, WEIGHT_SCALE)
    np.testing.assert_allclose(result[0] * GATE_SCALE, bias * WEIGHT_SCALE / (1 << 10), atol=GATE_SCALE)


def test_the_result_saturates_at_16_bits() -> None:
    result = layer_norm(np.array([[-9, 9]]), np.full(2, (1 << 15) - 1), np.full(2, 1 << 29), WEIGHT_SCALE)
    np.testing.assert_array_equal(result, [[(1 << 15) - 1, (1 << 15) - 1]])
