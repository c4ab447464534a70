"""ROI_POOLING."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._regions import channels_back, channels_last, scaled_regions
from nnhal.kernels._types import Array, Integers
from nnhal.operations import OperationContext
from nnhal.operations.regions import RoiPoolingInput


def roi_pooling(op: OperationContext) -> tuple[Array, ...]:
    """Each cell is the maximum of its part of the region; 0 if that lies outside the feature map."""
    channels_first = op.boolean(RoiPoolingInput.LAYOUT)
    features = channels_last(op.value(RoiPoolingInput.FEATURES), channels_first)
    _, length, breadth, channels = features.shape
    height, width = op.integer(RoiPoolingInput.OUTPUT_HEIGHT), op.integer(RoiPoolingInput.OUTPUT_WIDTH)
    regions, indexes = scaled_regions(op)
    corners = np.trunc(regions + np.copysign(np.float32(0.5), regions)).astype(np.int64)
    zero = op.inputs[RoiPoolingInput.FEATURES].zero_point
    results = np.full((len(regions), height, width, channels), zero, features.dtype)
    for result, (x1, y1, x2, y2), index in zip(results, corners, indexes, strict=True):
        columns = _parts(x1, x2, width, breadth)
        for row, (top, bottom) in zip(result, _parts(y1, y2, height, length), strict=True):
            if top == bottom:
                continue
            highest = features[index, top:bottom].max(axis=0)
            for cell, (left, right) in zip(row, columns, strict=True):
                if left < right:
                    cell[:] = highest[left:right].max(axis=0)
    return (channels_back(results, channels_first),)


def _parts(first: int, last: int, cells: int, length: int) -> Integers:
    """The begin and end of each part of a region, [cells, 2], from 0 to length. Parts may overlap."""
    size = last - first + 1
    numbers = np.arange(cells)
    begins, ends = numbers * size // cells, -(-(numbers + 1) * size // cells)
    return np.clip(first + np.stack((begins, ends), axis=1), 0, length)
