"""Layer normalisation in integers, as NNAPI's QUANTIZED_LSTM has it."""

from __future__ import annotations

import numpy as np

from nnhal_devices.cpu_ref.kernels._fixed_point import saturate
from nnhal_devices.cpu_ref.kernels._quantization import multiplier_of, scale_by, scale_fixed
from nnhal_devices.cpu_ref.kernels._types import Integers

_FRACTION_BITS = 10
"""Values are normalised with ten bits of fraction, since a normalised row is mostly within -3 to 3."""
_GATE_SCALE = 2.0**-12


def layer_norm(values: Integers, weights: Integers, bias: Integers, weight_scale: float) -> Integers:
    """Rows [batch, units] to mean 0 and deviation 1, times weights plus bias, as 16 bits with three integer bits.

    The scale of ``values`` does not matter; ``bias`` counts weight_scale / 2**10.
    """
    size = values.shape[-1]
    mean = _truncate(values.sum(axis=-1, keepdims=True) << _FRACTION_BITS, size)
    squares = np.square(values).sum(axis=-1, keepdims=True) * ((1 << 2 * _FRACTION_BITS) // size)
    variance = _truncate(squares - np.square(mean), 1 << 2 * _FRACTION_BITS)
    least = max(1, int(10000 * weight_scale))  # what stands for the variance of a row that hardly varies
    inverse = 1 / np.sqrt(np.where(variance < 1, least, variance).astype(np.float64))
    pairs = np.array([multiplier_of(float(real)) for real in inverse.flat], np.int64).reshape(*inverse.shape, 2)
    normalized = scale_fixed((values << _FRACTION_BITS) - mean, pairs[..., 0], pairs[..., 1])
    total = normalized * weights + bias
    half = 1 << (_FRACTION_BITS - 1)
    rescaled = _truncate(total + np.where(total > 0, half, -half), 1 << _FRACTION_BITS)
    return saturate(scale_by(rescaled, weight_scale / _GATE_SCALE))


def _truncate(values: Integers, divisor: int) -> Integers:
    """Divided, rounded towards zero."""
    quotients: Integers = np.sign(values) * (np.abs(values) // divisor)
    return quotients
