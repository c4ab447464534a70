"""Windows that slide over images of [batch, height, width, channels], and pools of what they see."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
from numpy.lib.stride_tricks import as_strided

from nnhal.arrays import Array
from nnhal_mlip.program.program import TaskWindow, TileTask
from nnhal_mlip.simulator.arithmetic.operands import TaskOperands


def output_extent(extent: int, kernel: int, stride: int, dilation: int, before: int, after: int) -> int:
    """Return how many places a window has along an axis; 0 or less if it does not fit."""
    return (extent + before + after - (kernel - 1) * dilation - 1) // stride + 1


def output_size(height: int, width: int, window: TaskWindow) -> tuple[int, int]:
    """Return how many places a window has in an image: rows and columns."""
    top, left, bottom, right = window.padding
    return (
        output_extent(height, window.kernel[0], window.strides[0], window.dilation[0], top, bottom),
        output_extent(width, window.kernel[1], window.strides[1], window.dilation[1], left, right),
    )


def padded(image: Array, window: TaskWindow, value: float, dtype: np.dtype[np.generic]) -> Array:
    """Return an image of another type with a window's padding around it, or without what the window does not reach."""
    top, left, bottom, right = window.padding
    _, height, width, _ = image.shape
    seen = image[:, max(-top, 0) : height - max(-bottom, 0), max(-left, 0) : width - max(-right, 0)]
    if not any(side > 0 for side in window.padding):
        return seen.astype(dtype)
    batch, rows, columns, channels = seen.shape
    top, left, bottom, right = (max(side, 0) for side in window.padding)
    framed = np.full((batch, rows + top + bottom, columns + left + right, channels), value, dtype)
    framed[:, top : top + rows, left : left + columns] = seen
    return framed


def windows_of(image: Array, window: TaskWindow, rows: int, columns: int) -> Array:
    """Return a view of an image that has its padding: [batch, rows, columns, height, width of the window, channels]."""
    batch, down, right, deep = image.strides
    (kernel_rows, kernel_columns), strides, dilation = window.kernel, window.strides, window.dilation
    return as_strided(
        image,
        (image.shape[0], rows, columns, kernel_rows, kernel_columns, image.shape[3]),
        (batch, down * strides[0], right * strides[1], down * dilation[0], right * dilation[1], deep),
        writeable=False,
    )


def tap(image: Array, axis: int, offset: int, stride: int, places: int) -> Array:
    """Return what a window's element sees, at all of its places along an axis of an image that has its padding."""
    index = [slice(None)] * image.ndim
    index[axis] = slice(offset, offset + (places - 1) * stride + 1, stride)
    return image[tuple(index)]


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
