"""CONVOLUTION: the product of the elements under each window, a row of a matrix, with the filters.

Floats are multiplied and summed in float32. Integers are exact: float32 holds the sums of 1,024 products of int8, and
such sums are added in float64. A sum that int32 cannot hold is exact as well.
"""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.program.program import TileTask
from nnhal_mlip.simulator.arithmetic.operands import TaskOperands, scaled, weights_of
from nnhal_mlip.simulator.arithmetic.windows import padded, windows_of

_ELEMENTS_AT_ONCE = 1 << 20
"""Elements of the matrix that are laid out at a time."""
_EXACT_PRODUCTS = 1024
"""So many products of two int8 sum up to 2 ** 24 at most, up to which float32 has all integers."""


def convolution(task: TileTask, operands: TaskOperands) -> Array:
    """Return the sums with biases and factors: [batch, rows, columns, output channels]."""
    weights = weights_of(operands)
    exact = weights.dtype.kind == "i"
    matrix = weights.astype(np.float32).reshape(len(weights), -1).T
    image = padded(operands.inputs[0], task.window, 0, np.dtype(np.float32))
    batch, rows, columns, channels = task.output.shape
    if task.window.kernel == (1, 1) and task.window.strides == (1, 1):
        flat = image[:, :rows, :columns].reshape(-1, image.shape[3])
        return scaled(_product(flat, matrix, exact), operands).reshape(task.output.shape)
    windows = windows_of(image, task.window, rows, columns)
    step = max(1, _ELEMENTS_AT_ONCE // (columns * len(matrix)))
    result = np.empty((batch, rows, columns, channels), np.float64 if exact else np.float32)
    for number in range(batch):
        for row in range(0, rows, step):
            flat = windows[number, row : row + step].reshape(-1, len(matrix))
            result[number, row : row + step] = _product(flat, matrix, exact).reshape(-1, columns, channels)
    return scaled(result, operands)


def _product(left: Array, right: Array, exact: bool) -> Array:
    if not exact:
        return left @ right
    sums = np.zeros((len(left), right.shape[1]))
    for start in range(0, len(right), _EXACT_PRODUCTS):
        sums += left[:, start : start + _EXACT_PRODUCTS] @ right[start : start + _EXACT_PRODUCTS]
    return sums
