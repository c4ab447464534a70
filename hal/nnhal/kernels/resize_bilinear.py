"""RESIZE_BILINEAR."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._resize import positions, scale_of
from nnhal.kernels._types import Array, Floats, Integers
from nnhal.operations import OperationContext
from nnhal.operations.resize import ResizeInput, prepare_resize, spatial_axes


def resize_bilinear(op: OperationContext) -> tuple[Array, ...]:
    """Interpolate rows, then columns. Input and output share a quantisation, so no scale is needed."""
    values = op.value(ResizeInput.INPUT)
    (dimensions,) = prepare_resize(op)
    result = values.astype(np.float32)
    for axis in spatial_axes(op):
        result = _interpolate(op, result, axis, dimensions[axis])
    if np.issubdtype(values.dtype, np.integer):
        result = np.floor(result + np.float32(0.5))
    return (result.astype(values.dtype),)


def _interpolate(op: OperationContext, values: Floats, axis: int, resized: int) -> Floats:
    low, high, fraction = neighbours(op, values.shape[axis], resized)
    fraction = fraction.reshape([-1 if a == axis else 1 for a in range(values.ndim)])
    between: Floats = values.take(low, axis) * (1 - fraction) + values.take(high, axis) * fraction
    return between


def neighbours(op: OperationContext, length: int, resized: int) -> tuple[Integers, Integers, Floats]:
    """For each element of the resized axis the two that it lies between, and how far from the first to the second."""
    scale = scale_of(op, length, resized)
    half = np.float32(0.5 if op.boolean(ResizeInput.HALF_PIXEL_CENTERS) else 0)
    places = np.clip((positions(resized) + half) * scale - half, 0, length - 1)
    low = np.floor(places).astype(np.int64)
    return low, np.minimum(low + 1, length - 1), (places - low).astype(np.float32)
