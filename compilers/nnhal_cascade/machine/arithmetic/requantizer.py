"""Accumulators to 8-bit values, with the multipliers prepared.

The same fixed point as cpu_ref's ``requantize``. Written as additions and shifts it is a third of the passes over the
data: rounding half away from zero and truncating is a floor after adding a half, and so is the shift that follows, if
a negative number gets 1 less than a half.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnhal.arrays import Array
from nnhal.kernels._quantization import multiplier_of, quantized_range, requantize
from nnhal.types import FusedActivation, Operand
from nnhal.types.layout import ELEMENT_TYPES

_INT32 = 1 << 31


class Requantizer:
    """Multiplies accumulators by a real, or by one for each channel, and clamps them to an output's range."""

    def __init__(
        self, multipliers: Array, output: Operand, activation: FusedActivation, channels: int, largest: int
    ) -> None:
        """``multipliers`` are one, or one for each channel. ``largest`` bounds the accumulators' absolute values."""
        self._multipliers = np.broadcast_to(np.asarray(multipliers, np.float64), channels)
        self._output, self._activation = output, activation
        pairs = [multiplier_of(float(each)) for each in self._multipliers]
        self._mantissas = np.array([mantissa for mantissa, _ in pairs], np.int64)
        exponents = np.array([exponent for _, exponent in pairs], np.int64)
        self._plain = largest < _INT32 and bool((exponents <= 0).all())
        self._shifts = np.maximum(-exponents, 0)
        self._halves = (np.int64(1) << self._shifts) >> 1
        self._shifted = np.where(self._shifts > 0, np.int64(-1), np.int64(0))
        self._low, self._high = quantized_range(output, activation)
        self._element = ELEMENT_TYPES[output.type]

    def __call__(self, accumulators: NDArray[np.int64], channels: slice) -> Array:
        """Return the output's values of accumulators whose last axis is a slice of the channels. Overwrites them."""
        if not self._plain:
            return requantize(accumulators, self._multipliers[channels], self._output, self._activation)
        values = accumulators
        values *= self._mantissas[channels]
        values += 1 << 30
        values >>= 31
        negative = values >> 63
        negative &= self._shifted[channels]
        values += negative
        values += self._halves[channels]
        values >>= self._shifts[channels]
        values += self._output.zero_point
        return np.clip(values, self._low, self._high, out=values).astype(self._element)
