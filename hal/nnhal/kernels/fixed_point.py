"""16-bit fixed point, as NNAPI's integer LSTMs use it (gemmlowp's conventions).

A value with n integer bits is a raw integer in [-2**15, 2**15) that stands for raw * 2**(n - 15). Arrays are int64, so
that intermediate results do not overflow; every function returns raw integers of 16 bits.
"""

from __future__ import annotations

from math import exp

import numpy as np

from nnhal.kernels.array_types import Array, Integers
from nnhal.kernels.quantization import divide_half_away

_ONE = (1 << 15) - 1  # with no integer bits: the value nearest to 1
_ONE_OF_2 = 1 << 13  # with two integer bits
_EXP_OF_MINUS_EIGHTH = round(exp(-1 / 8) * (1 << 15))
_THIRD = round((1 << 15) / 3)
_EXPONENTS = range(-2, 5)
_48_OVER_17 = round(48 / 17 * _ONE_OF_2)
_MINUS_32_OVER_17 = -round(32 / 17 * _ONE_OF_2)
_NEWTON_STEPS = 3


def saturate(values: Array) -> Integers:
    """Clamp to 16 bits."""
    return np.clip(values.astype(np.int64, copy=False), -(1 << 15), _ONE)


def multiply(first: Integers | int, second: Integers | int) -> Integers:
    """A product, which has the integer bits of both factors added. Halves round up."""
    return saturate(np.asarray(first * second + (1 << 14) >> 15))


def scale(values: Integers, exponent: int) -> Integers:
    """values * 2**exponent, saturated; halves round away from zero."""
    return saturate(values << exponent) if exponent >= 0 else divide_half_away(values, 1 << -exponent)


def logistic(values: Integers, integer_bits: int) -> Integers:
    """1 / (1 + exp(-x)), with no integer bits."""
    reciprocal = _two_over_one_plus(_exp_of_negative(-np.abs(values), integer_bits))
    positive = scale(reciprocal, 1)  # half of it, and from two integer bits to none
    return np.where(values > 0, positive, np.where(values < 0, _ONE - positive, 1 << 14))


def tanh(values: Integers, integer_bits: int) -> Integers:
    """The hyperbolic tangent, with no integer bits: (1 - e) / (1 + e) for e = exp(-2 |x|), with the sign of x."""
    reciprocal = _two_over_one_plus(_exp_of_negative(-np.abs(values), integer_bits + 1))
    return np.sign(values) * scale(reciprocal - _ONE_OF_2, 2)


def _exp_of_negative(values: Integers, integer_bits: int) -> Integers:
    """exp(x) for x <= 0, with no integer bits: exp of the remainder modulo 1/4, times factors for powers of two."""
    fraction_bits = 15 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    excess = (values & (quarter - 1)) - quarter
    result = _exp_near_zero(scale(excess, integer_bits))
    remaining = excess - values
    for exponent in _EXPONENTS:
        if exponent < integer_bits:
            factor = round(exp(-(2.0**exponent)) * (1 << 15))
            result = np.where(remaining & (1 << (fraction_bits + exponent)), multiply(result, factor), result)
    if integer_bits > _EXPONENTS.stop:
        result = np.where(values < -(1 << (fraction_bits + _EXPONENTS.stop)), 0, result)
    return np.where(values == 0, _ONE, result)


def _exp_near_zero(values: Integers) -> Integers:
    """exp(x) for -1/4 <= x < 0, both without integer bits: four terms of the Taylor series around -1/8."""
    x = values + (1 << 12)
    square = multiply(x, x)
    fourth = multiply(square, square)
    higher = scale(multiply(scale(fourth, -2) + multiply(square, x), _THIRD) + square, -1)
    return saturate(_EXP_OF_MINUS_EIGHTH + multiply(x + higher, _EXP_OF_MINUS_EIGHTH))


def _two_over_one_plus(values: Integers) -> Integers:
    """2 / (1 + x) for 0 <= x <= 1 with no integer bits; the result has two. Newton-Raphson division."""
    half_denominator = values + _ONE + 1 >> 1
    x = _48_OVER_17 + multiply(half_denominator, _MINUS_32_OVER_17)
    for _ in range(_NEWTON_STEPS):
        error = _ONE_OF_2 - multiply(half_denominator, x)
        x = x + scale(multiply(x, error), 2)
    return x
