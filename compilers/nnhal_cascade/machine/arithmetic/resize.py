"""RESIZE_NEAREST_NEIGHBOR and RESIZE_BILINEAR: where each element comes from is computed once, for the whole image."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nnhal.arrays import Array
from nnhal.kernels.resize import nearest, neighbours
from nnhal.operations.resize import ResizeInput, spatial_axes
from nnhal_cascade.geometry.box import Axis, Box, Interval, Shape
from nnhal_cascade.machine.arithmetic.kernel import NoStripesError, OperationCall

_AXES = (Axis.ROWS, Axis.COLUMNS)


class NearestNeighbour:
    """RESIZE_NEAREST_NEIGHBOR."""

    def __init__(self, call: OperationCall) -> None:
        self.inputs = (_image(call),)
        self._sources = [nearest(call.op, self.inputs[0][axis], call.output[axis]) for axis in _AXES]

    def reads(self, output: Box) -> tuple[Box, ...]:
        """From the first to the last element that is copied."""
        rows, columns = (_span(self._sources[axis][slice(*output[axis])]) for axis in _AXES)
        return (Box(rows, columns, output.channels),)

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """Copy elements."""
        result, (box,) = values[0], self.reads(output)
        for axis in _AXES:
            result = result.take(self._sources[axis][slice(*output[axis])] - box[axis].start, axis)
        return result


class Bilinear:
    def __init__(self, call: OperationCall) -> None:
        self.inputs = (_image(call),)
        self._neighbours = [neighbours(call.op, self.inputs[0][axis], call.output[axis]) for axis in _AXES]

    def reads(self, output: Box) -> tuple[Box, ...]:
        """From the first to the last neighbour."""
        spans = []
        for axis in _AXES:
            low, high, _ = self._neighbours[axis]
            wanted = slice(*output[axis])
            spans.append(_span(np.concatenate((low[wanted], high[wanted]))))
        return (Box(spans[0], spans[1], output.channels),)

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """Interpolate rows, then columns."""
        (box,) = self.reads(output)
        result: Array = values[0].astype(np.float32)
        for axis in _AXES:
            wanted, start = slice(*output[axis]), box[axis].start
            low, high, fraction = self._neighbours[axis]
            far = fraction[wanted].reshape([-1 if other == axis else 1 for other in Axis])
            result = result.take(low[wanted] - start, axis) * (1 - far) + result.take(high[wanted] - start, axis) * far
        rounded: Array = np.floor(result + np.float32(0.5)).astype(values[0].dtype)
        return rounded


def _image(call: OperationCall) -> Shape:
    if spatial_axes(call.op) != (1, 2):
        raise NoStripesError("images of [batch, channels, height, width], expected the channels last")
    return call.shape(ResizeInput.INPUT)


def _span(sources: NDArray[np.int64]) -> Interval:
    return Interval(int(sources.min()), int(sources.max()) + 1)
