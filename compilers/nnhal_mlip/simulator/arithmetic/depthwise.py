"""DEPTHWISE: each channel with its own filter. Floats are summed in float32, integers exactly in int32."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.program.program import TileTask
from nnhal_mlip.simulator.arithmetic.operands import TaskOperands, scaled, weights_of
from nnhal_mlip.simulator.arithmetic.windows import padded, tap


def depthwise(task: TileTask, operands: TaskOperands) -> Array:
    """Return the sums with biases and factors: [batch, rows, columns, channels]."""
    weights = weights_of(operands)
    dtype = np.dtype(np.int32 if weights.dtype.kind == "i" else np.float32)
    image, filters, window = padded(operands.inputs[0], task.window, 0, dtype), weights[0].astype(dtype), task.window
    _, rows, columns, _ = task.output.shape
    sums = np.zeros(task.output.shape, dtype)
    for row in range(window.kernel[0]):
        along = tap(image, 1, row * window.dilation[0], window.strides[0], rows)
        for column in range(window.kernel[1]):
            seen = tap(along, 2, column * window.dilation[1], window.strides[1], columns)
            sums += seen * filters[row, column]
    return scaled(sums, operands)
