"""Sums of products with a filter, exact, and as fast as the matrix products of floats.

Integers below 2**24 are exact in float32, and below 2**53 in float64. The zero point of the input may be taken out of
the sums by the bias: the sum of (x - zero point) * w is the sum of x * w less zero point * the sum of w.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.operations import OperationContext, channel_quant
from nnhal.operations._convolution import BIAS, FILTER, INPUT
from nnhal.operations._types import Q8C
from nnhal.types import FusedActivation
from nnhal.types.layout import ELEMENT_TYPES
from nnhal_cascade.geometry.box import Interval
from nnhal_cascade.machine.arithmetic.requantizer import Requantizer

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
