from __future__ import annotations

import numpy as np
import pytest

from nnhal.kernels.quantization import (
    divide_half_away,
    multiplier_of,
    quantized_range,
    requantize,
    scale_by,
    scale_fixed,
)
from nnhal.types import FusedActivation, Operand, OperandType

Q8A = OperandType.TENSOR_QUANT8_ASYMM
LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1


def exact(value: int, mantissa: int, exponent: int) -> int:
    """The fixed-point product in integers: saturate, round half away from zero, then shift to nearest."""
    shifted = min(max(value << max(exponent, 0), LOWEST), HIGHEST)
    product = shifted * mantissa
    sign = 1 if product >= 0 else -1
    high = sign * ((abs(product) + (1 << 30) - (product < 0)) >> 31)
    if exponent >= 0:
        return high
    sign = 1 if high >= 0 else -1
    return sign * ((abs(high) + (1 << (-exponent - 1))) >> -exponent)


def test_products_are_the_exact_ones_rounded_twice() -> None:
    rng = np.random.default_rng(7)
    values = np.concatenate([rng.integers(LOWEST, HIGHEST, 300), rng.integers(-300, 300, 300), [0, LOWEST, HIGHEST]])
    for exponent in (-31, -9, -1, 0, 1, 8, 31):
        for mantissa in (1 << 30, 1_234_567_891, HIGHEST):
            got = scale_fixed(values, np.array(mantissa), np.array(exponent))
            assert got.tolist() == [exact(int(value), mantissa, exponent) for value in values]


@pytest.mark.parametrize("real", [1.0, 0.5, 0.75, 1e-6, 3.14159, 1000.5, 1 - 2.0**-40])
def test_a_multiplier_is_a_mantissa_of_31_bits_and_an_exponent(real: float) -> None:
    mantissa, exponent = multiplier_of(real)
    assert 1 << 30 <= mantissa < 1 << 31
    assert mantissa / 2**31 * 2.0**exponent == pytest.approx(real, rel=2.0**-31)


def test_multipliers_beyond_the_accumulator_are_zero_or_saturate() -> None:
    assert scale_by(np.array([HIGHEST]), 1e-20).tolist() == [0]
    assert scale_by(np.array([0, 1, -1]), 1e20).tolist() == [0, HIGHEST - 1, LOWEST + 1]


def test_quotients_of_integers_go_away_from_zero_at_halves() -> None:
    assert divide_half_away(np.array([5, -5, 4, -4, 7]), 2).tolist() == [3, -3, 2, -2, 4]


def test_each_channel_has_its_multiplier_and_the_output_s_range_saturates() -> None:
    output = Operand(Q8A, (), 1.0, 10)
    values = np.array([[4, 4, 4], [-100, 1000, -1]])
    assert requantize(values, np.array([1.0, 0.5, 2.0]), output, FusedActivation.NONE).tolist() == [
        [14, 12, 18],
        [0, 255, 8],
    ]


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        (FusedActivation.NONE, (-128, 127)),
        (FusedActivation.RELU, (-10, 127)),
        (FusedActivation.RELU1, (-12, -8)),
        (FusedActivation.RELU6, (-10, 2)),
    ],
)
def test_activations_narrow_the_range(activation: FusedActivation, expected: tuple[int, int]) -> None:
    assert quantized_range(Operand(OperandType.TENSOR_QUANT8_ASYMM_SIGNED, (), 0.5, -10), activation) == expected
