"""AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D. Height and width of a window are pooled one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from nnhal.kernels.array_types import Array, Integers
from nnhal.kernels.images import channels_last, in_layout
from nnhal.kernels.quantization import activate, clamp, divide_half_away, from_real, to_real
from nnhal.operations import OperationContext
from nnhal.operations.operand_types import QUANT8
from nnhal.operations.pooling import Implicit, window_of
from nnhal.operations.windows import Axis, Window


def average_pool_2d(op: OperationContext) -> tuple[Array, ...]:
    """The sum over each window, divided by the number of its elements without the padding."""
    return (averages(op, window_of(op)),)


def averages(op: OperationContext, window: Window) -> Array:
    """AVERAGE_POOL_2D by a given window."""
    if op.main_type() not in QUANT8:
        values = channels_last(to_real(op, Implicit.INPUT), window.channels_first)
        return _real(op, _pool(values, window, np.add, 0) / _counts(values, window).astype(np.float32), window)
    quantized = channels_last(op.value(Implicit.INPUT).astype(np.int64), window.channels_first)
    means = divide_half_away(_pool(quantized, window, np.add, 0), _counts(quantized, window))
    return _quantized(op, means, window)


def l2_pool_2d(op: OperationContext) -> tuple[Array, ...]:
    window = window_of(op)
    values = channels_last(to_real(op, Implicit.INPUT), window.channels_first)
    means = _pool(values * values, window, np.add, 0) / _counts(values, window).astype(np.float32)
    return (_real(op, np.sqrt(means), window),)


def max_pool_2d(op: OperationContext) -> tuple[Array, ...]:
    return (maxima(op, window_of(op)),)


def maxima(op: OperationContext, window: Window) -> Array:
    """MAX_POOL_2D by a given window."""
    if op.main_type() not in QUANT8:
        values = channels_last(to_real(op, Implicit.INPUT), window.channels_first)
        return _real(op, _pool(values, window, np.maximum, -np.inf), window)
    quantized = channels_last(op.value(Implicit.INPUT), window.channels_first)
    return _quantized(op, _pool(quantized, window, np.maximum, np.iinfo(quantized.dtype).min), window)


def _pool(images: Array, window: Window, function: Callable[[Array, Array], Array], neutral: float) -> Array:
    rows = _along(images.swapaxes(0, 1), window.height, function, neutral).swapaxes(0, 1)
    return _along(rows.swapaxes(0, 2), window.width, function, neutral).swapaxes(0, 2)


def _along(values: Array, axis: Axis, function: Callable[[Array, Array], Array], neutral: float) -> Array:
    """The windows of the first axis."""
    reach = (axis.output(len(values)) - 1) * axis.stride + 1
    values = np.pad(values, ((axis.before, axis.after), (0, 0), (0, 0), (0, 0)), constant_values=neutral)
    return reduce(function, (values[tap : tap + reach : axis.stride] for tap in range(axis.size)))


def _counts(images: Array, window: Window) -> Integers:
    """The number of elements of each window without the padding, by row and column."""
    rows, columns = (
        np.minimum(starts + axis.size, length) - np.maximum(starts, 0)
        for axis, length in ((window.height, images.shape[1]), (window.width, images.shape[2]))
        for starts in [np.arange(axis.output(length)) * axis.stride - axis.before]
    )
    counts: Integers = np.multiply.outer(rows, columns)[:, :, np.newaxis]
    return counts


def _real(op: OperationContext, values: Array, window: Window) -> Array:
    return in_layout(from_real(op, activate(values, window.activation)), window.channels_first)


def _quantized(op: OperationContext, values: Array, window: Window) -> Array:
    return in_layout(clamp(values, op.outputs[0], window.activation), window.channels_first)
