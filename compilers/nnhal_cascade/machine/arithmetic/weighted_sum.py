"""Sums of products with a filter, exact, and as fast as the matrix products of floats.

Integers below 2**24 are exact in float32, and below 2**53 in float64. The zero point of the input may be taken out of
the sums by the bias: the sum of (x - zero point) * w is the sum of x * w less zero point * the sum of w.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnhal.arrays import Array
from nnhal.kernels.quantization import multiplier_of, quantized_range, requantize
from nnhal.operations import OperationContext, channel_quant
from nnhal.operations.filters import BIAS, FILTER, INPUT
from nnhal.operations.operand_types import Q8C
from nnhal.types import FusedActivation, Operand
from nnhal.types.layout import ELEMENT_TYPES
from nnhal_cascade.geometry.box import Interval

_EXACT_IN_FLOAT32 = 1 << 24


class WeightedSum:
    """A filter, with its bias and quantisation. Its products are summed in ``dtype``."""

    def __init__(
        self, op: OperationContext, activation: FusedActivation, channel_axis: int, centred: bool = False
    ) -> None:
        """``channel_axis`` is the filter's axis of output channels.

        If ``centred``, inputs go in without their zero point, else with it: then each weight must be in each sum.
        """
        source, filters, output = op.inputs[INPUT], op.inputs[FILTER], op.outputs[0]
        values = op.value(FILTER).astype(np.int64) - filters.zero_point
        others = tuple(axis for axis in range(values.ndim) if axis != channel_axis)
        info = np.iinfo(ELEMENT_TYPES[source.type])  # type: ignore[type-var]
        origin = source.zero_point if centred else 0
        sums = int(np.abs(values).sum(axis=others).max()) * max(origin - int(info.min), int(info.max) - origin)
        biases = op.value(BIAS).astype(np.int64)
        if not centred:
            biases -= source.zero_point * values.sum(axis=others)
        self.zero_point = source.zero_point
        self.dtype: np.dtype[Any] = np.dtype(np.float32 if sums < _EXACT_IN_FLOAT32 else np.float64)
        self.filters: Array = values.astype(self.dtype)
        self._biases = biases
        scales = channel_quant(filters).scales if filters.type == Q8C else (filters.scale,)
        multipliers = np.array(scales) * source.scale / output.scale
        largest = sums + int(np.abs(biases).max())
        self._requantize = Requantizer(multipliers, output, activation, values.shape[channel_axis], largest)

    def finish(self, sums: Array, channels: Interval) -> Array:
        """Return the output's values of sums whose last axis is an interval of the channels."""
        chosen = slice(*channels)
        accumulators = sums.astype(np.int64)
        accumulators += self._biases[chosen]
        return self._requantize(accumulators, chosen)


_INT32 = 1 << 31


class Requantizer:
    """Multiplies accumulators by a real, or by one for each channel, and clamps them to an output's range.

    The same fixed point as cpu_ref's ``requantize``. Written as additions and shifts it is a third of the passes over
    the data: rounding half away from zero and truncating is a floor after adding a half, and so is the shift that
    follows, if a negative number gets 1 less than a half.
    """

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
