"""Layer normalisation in integers, as NNAPI's QUANTIZED_LSTM has it."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._fixed_point import saturate
from nnhal.kernels._quantization import scale_by, scale_fixed
from nnhal.kernels._types import Integers

_FRACTION_BITS = 10
"""Values are normalised with ten bits of fraction, since a normalised row is mostly within -3 to 3."""
_GATE_SCALE = 2.0**-12
_NEWTON_STEPS = 5


def layer_norm(values: Integers, weights: Integers, bias: Integers, weight_scale: float) -> Integers:
    """Normalise rows [batch, units] to mean 0 and deviation 1, times weights plus bias: 16 bits, three of them integer.

    The scale of ``values`` does not matter; ``bias`` counts weight_scale / 2**10.
    """
    size = values.shape[-1]
    mean = _truncate(values.sum(axis=-1, keepdims=True) << _FRACTION_BITS, size)
    squares = np.square(values).sum(axis=-1, keepdims=True) * ((1 << 2 * _FRACTION_BITS) // size)
    variance = _truncate(squares - np.square(mean), 1 << 2 * _FRACTION_BITS)
    least = max(1, int(10000 * weight_scale))  # replaces the variance of a row that hardly varies
    mantissa, exponent = _inverse_root(np.where(variance < 1, least, variance))
    normalized = scale_fixed((values << _FRACTION_BITS) - mean, mantissa, exponent)
    total = normalized * weights + bias
    half = 1 << (_FRACTION_BITS - 1)
    rescaled = _truncate(total + np.where(total > 0, half, -half), 1 << _FRACTION_BITS)
    return saturate(scale_by(rescaled, weight_scale / _GATE_SCALE))


def _inverse_root(values: Integers) -> tuple[Integers, Integers]:
    """1 / sqrt(x) of integers from 1 on, as mantissa / 2**31 * 2**exponent.

    The mantissa is not normalised and its Newton iteration stops early, as in the reference: the exponent decides how
    products are rounded.
    """
    bits = np.frexp(values)[1].astype(np.int64)
    shift = 12 - (31 - bits) // 2
    scaled = values * 0.25**shift / 128  # in [1/4, 1)
    root = np.ones_like(scaled)
    for _ in range(_NEWTON_STEPS):
        root = 1.5 * root - 0.5 * scaled * root**3
    mantissa = np.rint(root * np.sqrt(0.5) * (1 << 28)).astype(np.int64) << np.maximum(-shift, 0)
    return np.where(values == 1, (1 << 31) - 1, mantissa), np.where(values == 1, 0, -np.maximum(shift, 0))


def _truncate(values: Integers, divisor: int) -> Integers:
    """Divide, rounding towards zero."""
    quotients: Integers = np.sign(values) * (np.abs(values) // divisor)
    return quotients
