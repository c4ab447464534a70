"""MEAN and SOFTMAX: operations that need some axes whole, and go element by element along the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal.kernels.activation import softmax as softmax_kernel
from nnhal.kernels.quantization import clamp, divide_half_away
from nnhal.operations.activation import SoftmaxInput
from nnhal.operations.dimensions import axis_of
from nnhal.operations.reduction import axes_of_mean
from nnhal_cascade.geometry.box import Box, Interval, Shape
from nnhal_cascade.machine.arithmetic.kernel import NoStripesError, OperationCall, executing

_INPUT = 0
_RANK = 3


class Mean:
    """MEAN over axes that keep their places, as those of images do: [1, rows, columns, channels] to [1, channels]."""

    def __init__(self, call: OperationCall) -> None:
        self.inputs = (call.shape(_INPUT),)
        rank = len(call.op.dimensions(_INPUT))
        self._axes = tuple(axis + _RANK - rank for axis in axes_of_mean(call.op) if axis + _RANK - rank >= 0)
        kept = Shape(*(1 if axis in self._axes else length for axis, length in enumerate(self.inputs[0])))
        if kept != call.output:
            raise NoStripesError(f"a mean of {kept} as {call.output}, expected the same axes in their order")
        self._output = call.op.outputs[0]

    def reads(self, output: Box) -> tuple[Box, ...]:
        """The axes that are averaged, whole."""
        return (_whole_along(self._axes, self.inputs[0], output),)

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """Sums, divided by the number of elements."""
        sums = values[0].sum(axis=self._axes, dtype=np.int64, keepdims=True)
        return clamp(divide_half_away(sums, values[0].size // sums.size), self._output)


class Softmax:
    def __init__(self, call: OperationCall) -> None:
        self.inputs = (call.shape(_INPUT),)
        self._op = call.op
        self._rank = len(call.op.dimensions(_INPUT))
        axis = axis_of(call.op, call.op.integer(SoftmaxInput.AXIS, default=-1), self._rank)
        self._axis = axis + _RANK - self._rank

    def reads(self, output: Box) -> tuple[Box, ...]:
        """The axis that sums to 1, whole."""
        return (_whole_along((self._axis,), self.inputs[0], output),)

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """Compute the whole axis, even if the box is only a part of it."""
        given = np.ascontiguousarray(values[0])
        given = given.reshape(given.shape[_RANK - self._rank :] if self._rank <= _RANK else (1, *given.shape))
        (result,) = softmax_kernel(executing(self._op, {_INPUT: given}))
        result = result.reshape(values[0].shape)
        if self._axis < 0:
            return result
        return result[(slice(None),) * self._axis + (slice(*output[self._axis]),)]


def _whole_along(axes: Collection[int], shape: Shape, output: Box) -> Box:
    parts = (Interval(0, shape[axis]) if axis in axes else output[axis] for axis in range(_RANK))
    return Box(*parts)
