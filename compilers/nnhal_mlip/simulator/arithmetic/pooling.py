"""MAX_POOL and AVERAGE_POOL, first along the columns of the window and then along its rows.

Floats are summed in float32, integers exactly in int64. Under every place of a window is an element.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.program.program import TaskWindow, TileTask
from nnhal_mlip.simulator.arithmetic.operands import TaskOperands
from nnhal_mlip.simulator.arithmetic.windows import padded, tap


def max_pool(task: TileTask, operands: TaskOperands) -> Array:
    """Return the maximum under each window, by the factor: [batch, rows, columns, channels]."""
    (values,) = operands.inputs
    lowest = np.iinfo(values.dtype).min if values.dtype.kind in "iu" else np.finfo(values.dtype).min
    maxima = _along_axes(padded(values, task.window, float(lowest), values.dtype), task, np.maximum)
    return _by_factor(maxima.astype(_wide(values)), task)


def average_pool(task: TileTask, operands: TaskOperands) -> Array:
    """Return the average under each window, by the factor: [batch, rows, columns, channels]."""
    (values,) = operands.inputs
    summed = np.dtype(np.int64 if values.dtype.kind in "iu" else np.float32)
    sums = _along_axes(padded(values, task.window, 0, summed), task, np.add).astype(_wide(values))
    return _by_factor(sums, task) / _counts(values.shape[1:3], task)


def _along_axes(image: Array, task: TileTask, combine: Callable[[Array, Array], Array]) -> Array:
    for axis in (2, 1):
        kernel, stride, dilation = (
            pair[axis - 1] for pair in (task.window.kernel, task.window.strides, task.window.dilation)
        )
        places = task.output.shape[axis]
        image = reduce(combine, (tap(image, axis, offset * dilation, stride, places) for offset in range(kernel)))
    return image


def _counts(size: tuple[int, ...], task: TileTask) -> Array:
    """By how many elements a sum is divided: [1, rows, columns, 1]."""
    window = task.window
    if window.count_padding:
        return np.full((1, 1, 1, 1), window.kernel[0] * window.kernel[1], np.float32)
    ones = padded(np.ones((1, *size, 1), np.int32), _only_padding(window), 0, np.dtype(np.int32))
    return _along_axes(ones, task, np.add).astype(np.float32)


def _only_padding(window: TaskWindow) -> TaskWindow:
    return TaskWindow(padding=window.padding)


def _by_factor(values: Array, task: TileTask) -> Array:
    return values * task.input_factors[0] if task.input_factors else values


def _wide(values: Array) -> np.dtype[np.generic]:
    return np.dtype(np.float64 if values.dtype.kind in "iu" else np.float32)
