"""AVERAGE_POOL_2D and MAX_POOL_2D, by cpu_ref's kernels with the stripe's own padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nnhal.arrays import Array
from nnhal.kernels.pooling import averages, maxima
from nnhal.operations import OperationContext
from nnhal.operations.pooling import Implicit, window_of
from nnhal.operations.windows import Window
from nnhal.types import OperationType
from nnhal_cascade.geometry.box import Box
from nnhal_cascade.machine.arithmetic.convolution import channels_last, under
from nnhal_cascade.machine.arithmetic.kernel import OperationCall, executing

_POOLS: dict[OperationType, Callable[[OperationContext, Window], Array]] = {
    OperationType.AVERAGE_POOL_2D: averages,
    OperationType.MAX_POOL_2D: maxima,
}


class Pooling:
    """A value for each window, channel by channel. Padding counts for nothing."""

    def __init__(self, call: OperationCall) -> None:
        self.inputs = (call.shape(Implicit.INPUT),)
        self._op = call.op
        self._window = channels_last(window_of(call.op))
        self._pool = _POOLS[call.op.type]

    def reads(self, output: Box) -> tuple[Box, ...]:
        """The rows and columns under the windows, of the same channels."""
        rows, columns, _ = self.inputs[0]
        height, width = under(self._window, rows, columns, output)
        return (Box(height.seen, width.seen, output.channels),)

    def compute(self, output: Box, values: Sequence[Array]) -> Array:
        """The stripe's border is padded as far as the image's is."""
        rows, columns, _ = self.inputs[0]
        height, width = under(self._window, rows, columns, output)
        window = self._window._replace(
            height=self._window.height._replace(before=height.before, after=height.after),
            width=self._window.width._replace(before=width.before, after=width.after),
        )
        pooled: Array = self._pool(executing(self._op, {Implicit.INPUT: values[0][np.newaxis]}), window)[0]
        return pooled
