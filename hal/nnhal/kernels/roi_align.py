"""ROI_ALIGN."""

from __future__ import annotations

from math import ceil

import numpy as np

from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._regions import channels_back, channels_last, scaled_regions
from nnhal.kernels._types import Array
from nnhal.operations import OperationContext
from nnhal.operations.regions import RoiAlignInput

_MOST_SAMPLES = 1 << 22
"""Along one axis of a region; more come from regions that are no part of any image."""


def roi_align(op: OperationContext) -> tuple[Array, ...]:
    """Each cell is the mean of samples at even distances, each interpolated between four cells of the feature map.

    Interpolation and mean are linear in rows and in columns, so a region is one matrix product from each side.
    """
    channels_first = op.boolean(RoiAlignInput.LAYOUT)
    features = channels_last(to_real(op, RoiAlignInput.FEATURES), channels_first)
    height, width = op.integer(RoiAlignInput.OUTPUT_HEIGHT), op.integer(RoiAlignInput.OUTPUT_WIDTH)
    regions, indexes = scaled_regions(op)
    results = np.zeros((len(regions), height, width, features.shape[3]), np.float32)
    for result, (x1, y1, x2, y2), index in zip(results, regions, indexes, strict=True):
        rows = _weights(op, y1, y2, height, op.integer(RoiAlignInput.SAMPLES_HEIGHT), features.shape[1])
        columns = _weights(op, x1, x2, width, op.integer(RoiAlignInput.SAMPLES_WIDTH), features.shape[2])
        result[:] = np.einsum("ih,hwc,jw->ijc", rows, features[index], columns, optimize=True)
    return (from_real(op, channels_back(results, channels_first)),)


def _weights(op: OperationContext, start: np.float32, end: np.float32, cells: int, samples: int, length: int) -> Array:
    """How much each of ``length`` places of the feature map counts in each cell of the output: [cells, length]."""
    step = np.maximum(end - start, np.float32(1)) / np.float32(cells)
    samples = samples or ceil(step)
    if cells * samples > _MOST_SAMPLES:
        op.fail(
            f"{cells} cells of {samples} samples along an axis of a region, expected {_MOST_SAMPLES} samples at most"
        )
    places = start + (np.arange(cells * samples, dtype=np.float32) + np.float32(0.5)) * (step / np.float32(samples))
    counts = (places >= -1) & (places <= length)
    nearest = np.clip(places, 0, length - 1)
    low = np.floor(nearest).astype(np.int64)
    fraction = nearest - low
    weights = np.zeros((cells, length))
    cell = np.repeat(np.arange(cells), samples)
    np.add.at(weights, (cell, low), counts * (1 - fraction))
    np.add.at(weights, (cell, np.minimum(low + 1, length - 1)), counts * fraction)
    return weights / samples
