"""RESIZE_NEAREST_NEIGHBOR."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._resize import positions, scale_of
from nnhal.kernels._types import Array, Integers
from nnhal.operations import OperationContext
from nnhal.operations.resize import ResizeInput, prepare_resize, spatial_axes


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
