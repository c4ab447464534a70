"""Images resized: by the nearest neighbour, and bilinearly."""

from __future__ import annotations

import numpy as np

from nnhal.kernels.array_types import Array, Floats, Integers
from nnhal.operations import OperationContext
from nnhal.operations.resize import ResizeInput, prepare_resize, spatial_axes


def scale_of(op: OperationContext, length: int, resized: int) -> np.float32:
    """The scale from pixels of the output to the input: it aligns the outer pixels' centres, or their edges."""
    if op.boolean(ResizeInput.ALIGN_CORNERS) and resized > 1:
        return np.float32(length - 1) / np.float32(resized - 1)
    return np.float32(length) / np.float32(resized)


def positions(resized: int) -> Floats:
    """The place in the input of each pixel of the output, along an axis."""
    return np.arange(resized, dtype=np.float32)


def resize_nearest_neighbor(op: OperationContext) -> tuple[Array, ...]:
    """Copy pixels: the type does not matter."""
    (dimensions,) = prepare_resize(op)
    result = op.value(ResizeInput.INPUT)
    for axis in spatial_axes(op):
        result = result.take(nearest(op, result.shape[axis], dimensions[axis]), axis)
    return (result,)


def nearest(op: OperationContext, length: int, resized: int) -> Integers:
    """The element that each element of the resized axis copies."""
    places = positions(resized)
    if op.boolean(ResizeInput.HALF_PIXEL_CENTERS):
        places = places + np.float32(0.5)
    places = places * scale_of(op, length, resized)
    if op.boolean(ResizeInput.ALIGN_CORNERS):
        places = places + np.float32(0.5)  # to the nearest pixel, not to the one that contains the place
    return np.minimum(np.floor(places).astype(np.int64), length - 1)


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
