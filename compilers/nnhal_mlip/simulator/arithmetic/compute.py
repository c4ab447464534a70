"""Computation of each kind of task. Floats are multiplied and summed in float32; integers are exact.

A convolution is the product of the elements under each window, a row of a matrix, with the filters. Float32 holds the
sums of 1,024 products of int8, and such sums are added in float64: so a sum that int32 cannot hold is exact as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.program.program import UNCLIPPED, TaskKind, TensorType, TileTask
from nnhal_mlip.program.tables import NO_TABLE, looked_up
from nnhal_mlip.simulator.arithmetic.operands import TaskOperands, scaled, weights_of
from nnhal_mlip.simulator.arithmetic.rounding import finished
from nnhal_mlip.simulator.arithmetic.windows import average_pool, max_pool, padded, tap, windows_of

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


def total(task: TileTask, operands: TaskOperands) -> Array:
    """Return the sum of the inputs, each by its factor."""
    factors = task.input_factors or (1.0,) * len(operands.inputs)
    parts = [_by(values, factor) for values, factor in zip(operands.inputs, factors, strict=True)]
    result = parts[0]
    for part in parts[1:]:
        result = result + part
    return result


def product(task: TileTask, operands: TaskOperands) -> Array:
    """Return the product of the inputs, each by its factor."""
    factors = task.input_factors or (1.0,) * len(operands.inputs)
    return reduce(np.multiply, (_by(values, factor) for values, factor in zip(operands.inputs, factors, strict=True)))


def softmax(task: TileTask, operands: TaskOperands) -> Array:
    """Return exp(x) divided by the sum of its row, of real numbers; the largest of a row is taken from all first."""
    values = _real(task, operands)
    powers = np.exp(values - values.max(axis=3, keepdims=True))
    return np.asarray(powers / (powers.sum(axis=3, keepdims=True) * task.output_scale))


def normalization(task: TileTask, operands: TaskOperands) -> Array:
    """Return x less its row's mean, by the root of the row's variance."""
    values = _real(task, operands)
    distance = values - values.mean(axis=3, keepdims=True)
    variance = np.mean(distance * distance, axis=3, keepdims=True)
    return np.asarray(distance * looked_up(task.range.table, variance) / task.output_scale)


def _real(task: TileTask, operands: TaskOperands) -> Array:
    return _by(operands.inputs[0], task.input_factors[0] * task.output_scale if task.input_factors else 1.0)


def matmul(task: TileTask, operands: TaskOperands) -> Array:
    """Return the product of two matrices, of which the second has a row for each column of the result."""
    left, right = (values[0, 0].astype(np.float32) for values in operands.inputs)
    sums = _product(left, right.T, exact=operands.inputs[0].dtype.kind in "iu")
    return reduce(np.multiply, task.input_factors, sums).reshape(task.output.shape)


def _by(values: Array, factor: float) -> Array:
    wide: Array = values.astype(np.float64 if values.dtype.kind in "iu" else np.float32)
    return wide if factor == 1.0 else wide * factor


COMPUTED = frozenset(
    {
        TensorType.INT8,
        TensorType.UINT8,
        TensorType.INT16,
        TensorType.UINT16,
        TensorType.FP16,
        TensorType.FP32,
    }
)
"""The types that tasks compute with."""

_KINDS: Mapping[TaskKind, Callable[[TileTask, TaskOperands], Array]] = MappingProxyType(
    {
        TaskKind.CONVOLUTION: convolution,
        TaskKind.DEPTHWISE: depthwise,
        TaskKind.MAX_POOL: max_pool,
        TaskKind.AVERAGE_POOL: average_pool,
        TaskKind.SUM: total,
        TaskKind.COPY: total,
        TaskKind.PRODUCT: product,
        TaskKind.SOFTMAX: softmax,
        TaskKind.NORMALIZATION: normalization,
        TaskKind.MATMUL: matmul,
    }
)


def compute(task: TileTask, operands: TaskOperands, dtype: np.dtype[np.generic]) -> Array:
    """Return a task's output, of the type given and the shape of its output view. Floats may become infinite or NaN."""
    if moves(task) and operands.inputs[0].dtype == dtype:
        return operands.inputs[0]
    range_ = task.range._replace(table=NO_TABLE) if task.kind is TaskKind.NORMALIZATION else task.range
    with np.errstate(all="ignore"):
        return finished(_KINDS[task.kind](task, operands), dtype, range_, task.output_scale)


def moves(task: TileTask) -> bool:
    """Return whether a task moves values as they are, if the types are equal."""
    return task.kind == TaskKind.COPY and task.range == UNCLIPPED and all(by == 1.0 for by in task.input_factors)
