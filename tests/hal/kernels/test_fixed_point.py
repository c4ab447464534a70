from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnhal.kernels.array_types import Integers
from nnhal.kernels.fixed_point import logistic, multiply, saturate, scale, tanh

RAW = np.arange(-(1 << 15), 1 << 15)
ONE = 1 << 15


@pytest.mark.parametrize("integer_bits", range(7))
def test_tanh_is_near_the_real_one_and_odd(integer_bits: int) -> None:
    result = tanh(RAW, integer_bits)
    np.testing.assert_allclose(result / ONE, np.tanh(RAW * 2.0 ** (integer_bits - 15)), atol=4e-4)
    np.testing.assert_array_equal(result[1:], -result[:0:-1])


@pytest.mark.parametrize("integer_bits", range(7))
def test_logistic_is_near_the_real_one_and_symmetric(integer_bits: int) -> None:
    result = logistic(RAW, integer_bits)
    np.testing.assert_allclose(result / ONE, 1 / (1 + np.exp(-RAW * 2.0 ** (integer_bits - 15))), atol=3e-4)
    others = RAW[1:] != 0
    np.testing.assert_array_equal((result[1:] + result[:0:-1])[others], ONE - 1)


@pytest.mark.parametrize(
    ("raw", "integer_bits", "function", "expected"),
    [(0, 3, tanh, 0), (0, 3, logistic, 16384), (1269, 3, logistic, 18904), (-5054, 3, tanh, -27640)],
)
def test_known_values(
    raw: int, integer_bits: int, function: Callable[[Integers, int], Integers], expected: int
) -> None:
    assert function(np.array([raw]), integer_bits) == [expected]


def test_products_round_halves_up_and_saturate() -> None:
    halves = np.array([1, -1, 3, -3])
    np.testing.assert_array_equal(multiply(halves, 1 << 14), [1, 0, 2, -1])
    assert multiply(np.array([-ONE]), -ONE) == [ONE - 1]


def test_scaling_rounds_halves_away_from_zero_and_saturates() -> None:
    np.testing.assert_array_equal(scale(np.array([2, -2, 6, -6]), -2), [1, -1, 2, -2])
    np.testing.assert_array_equal(scale(np.array([20000, -20000, 5]), 1), [ONE - 1, -ONE, 10])
    np.testing.assert_array_equal(saturate(np.array([40000, -40000, 7])), [ONE - 1, -ONE, 7])
