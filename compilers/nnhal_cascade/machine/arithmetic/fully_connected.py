"""FULLY_CONNECTED: a matrix product; its columns are the rows of the input."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from nnhal.arrays import Array
from nnhal.operations._window import activation_of
from nnhal.operations.matrix import FullyConnectedInput
from nnhal_cascade.geometry.box import Box, Interval, Shape
from nnhal_cascade.machine.arithmetic.kernel import OperationCall
from nnhal_cascade.machine.arithmetic.weighted_sum import WeightedSum


class FullyConnected:
    """FULLY_CONNECTED of n rows: [1, n, features] to [1, n, units]."""

    def __init__(self, call: OperationCall) -> None:
        self._sum = WeightedSum(call.op, activation_of(call.op, FullyConnectedInput.ACTIVATION), channel_axis=0)
        self._matrix = np.ascontiguousarray(self._sum.filters.T)
        features = len(self._matrix)
        self.inputs = (Shape(1, prod(call.op.dimensions(FullyConnectedInput.INPUT)) // features, features),)

    def reads(self, output: Box) -> tuple[Box, ...]:
        """The rows of the input, whole."""
        return (Box(Interval(0, 1), output.columns, Interval(0, len(self._matrix))),)

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """One matrix product."""
        sums = values[0][0].astype(self._sum.dtype) @ self._matrix[:, slice(*output.channels)]
        return self._sum.finish(sums, output.channels)[np.newaxis]
