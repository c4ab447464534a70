"""The parts of a pooling that takes its input row by row: sums as int32, and averages of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal.kernels.pooling import averages
from nnhal.kernels.quantization import clamp, divide_half_away
from nnhal.operations.pooling import Implicit, window_of
from nnhal.operations.windows import Axis, Window
from nnhal.types import OperationType
from nnhal_cascade.geometry.box import Box, Interval, Shape
from nnhal_cascade.graph.running_sums import ROW_SUMS, RUNNING_SUMS
from nnhal_cascade.machine.arithmetic.convolution import channels_last
from nnhal_cascade.machine.arithmetic.kernel import OperationCall, executing

_ONE = Interval(0, 1)


def row_sums(values: Sequence[Array]) -> Array:
    """Return the sum of each row, channel by channel."""
    sums: Array = values[0].sum(axis=1, dtype=np.int32, keepdims=True)
    return sums


def running_sums(values: Sequence[Array]) -> Array:
    """Return the sums of all rows up to each one; the second array has those of the row before, if there is one."""
    rows, before = values
    sums: Array = rows.cumsum(axis=0, dtype=np.int32) + before.sum(axis=0, dtype=np.int32)
    return sums


SUMS: Mapping[str, Callable[[Sequence[Array]], Array]] = {ROW_SUMS: row_sums, RUNNING_SUMS: running_sums}
"""Parts that sum up."""


class AverageOfSums:
    """A pooling of whole channels whose sums are there: the last row of them."""

    def __init__(self, call: OperationCall, sums: Shape) -> None:
        self.inputs: tuple[Shape, ...] = (sums,)
        self._call, self._count = call, call.shape(0).elements // sums.channels

    def reads(self, output: Box) -> tuple[Box, ...]:
        """The sums of all rows, of the same channels."""
        rows = self.inputs[0].rows
        return (Box(Interval(rows - 1, rows), _ONE, output.channels),)

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """Divide, and apply what is fused into the pooling."""
        op = self._call.op
        means = divide_half_away(values[0].astype(np.int64), self._count)
        if op.type is OperationType.MEAN:
            return clamp(means, op.outputs[0])
        window = channels_last(window_of(op))
        pixel: Window = window._replace(height=_pixel(window.height), width=_pixel(window.width))
        given = clamp(means, op.inputs[0])[np.newaxis]
        made: Array = averages(executing(op, {Implicit.INPUT: given}), pixel)[0]
        return made


def _pixel(axis: Axis) -> Axis:
    return axis._replace(size=1, stride=1, before=0, after=0)
