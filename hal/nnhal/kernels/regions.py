"""Regions of images: pooled, and their keypoints."""

from __future__ import annotations

from math import ceil

import numpy as np

from nnhal.kernels.array_types import Array, Floats, Integers
from nnhal.kernels.boxes import require_boxes
from nnhal.kernels.images import channels_last, in_layout
from nnhal.kernels.quantization import from_real, to_real
from nnhal.operations import OperationContext
from nnhal.operations.regions import HeatmapMaxKeypointInput, RoiAlignInput, RoiPoolingInput
from nnhal.types import OperandType


def scaled_regions(op: OperationContext) -> tuple[Floats, Array]:
    """The regions, in cells of the feature maps, and the index of each region's feature map."""
    ratios = np.array([op.real(RoiPoolingInput.RATIO_WIDTH), op.real(RoiPoolingInput.RATIO_HEIGHT)] * 2, np.float32)
    regions = to_real(op, RoiPoolingInput.ROIS) / ratios
    require_boxes(op, regions)
    return regions, op.value(RoiPoolingInput.BATCH_INDEX)


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
    return (from_real(op, in_layout(results, channels_first)),)


def _weights(op: OperationContext, start: np.float32, end: np.float32, cells: int, samples: int, length: int) -> Array:
    """Return the weight of each of ``length`` places of the feature map in each cell of the output: [cells, length]."""
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
    return (in_layout(results, channels_first),)


def _parts(first: int, last: int, cells: int, length: int) -> Integers:
    """The begin and end of each part of a region, [cells, 2], from 0 to length. Parts may overlap."""
    size = last - first + 1
    numbers = np.arange(cells)
    begins, ends = numbers * size // cells, -(-(numbers + 1) * size // cells)
    return np.clip(first + np.stack((begins, ends), axis=1), 0, length)


_FARTHEST = np.float32(1.5)
"""How many cells a maximum may lie from the highest cell."""


def heatmap_max_keypoint(op: OperationContext) -> tuple[Array, ...]:
    """The maximum of the quadratic surface through the highest cell and its neighbours."""
    heatmaps, boxes = to_real(op, HeatmapMaxKeypointInput.HEATMAPS), to_real(op, HeatmapMaxKeypointInput.BOXES)
    require_boxes(op, boxes)
    if not op.boolean(HeatmapMaxKeypointInput.LAYOUT):
        heatmaps = heatmaps.transpose(0, 3, 1, 2)
    count, keypoints, size, _ = heatmaps.shape
    cells = heatmaps.reshape(count, keypoints, size * size)
    y, x = np.divmod(cells.argmax(axis=2), size)
    tolerance = 1e-3 if op.main_type() == OperandType.TENSOR_FLOAT16 else 1e-5
    offsets, gains = _maximum(_neighbourhoods(heatmaps, y, x), np.float32(tolerance))
    scores = cells.max(axis=2) + gains
    corners, extents = boxes[:, None, :2], (boxes[:, 2:] - boxes[:, :2])[:, None]
    places = (np.stack((x, y), axis=-1).astype(np.float32) + np.float32(0.5) + offsets) / np.float32(size)
    return from_real(op, scores), from_real(op, corners + places * extents, 1)


def _neighbourhoods(heatmaps: Floats, y: Array, x: Array) -> Floats:
    """The 3 by 3 cells around each maximum, mirrored at the edges: [boxes, keypoints, 3, 3]."""
    padded = np.pad(heatmaps, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="reflect")
    box, keypoint = np.ogrid[: heatmaps.shape[0], : heatmaps.shape[1]]
    rows, columns = y[..., None, None] + np.arange(3)[:, None], x[..., None, None] + np.arange(3)
    return padded[box[..., None, None], keypoint[..., None, None], rows, columns]


def _maximum(cells: Floats, tolerance: np.float32) -> tuple[Floats, Floats]:
    """The offset (x, y) of a surface's maximum from the middle cell, and how much higher it is.

    The surface is the Taylor expansion up to second order, from differences between the cells; its maximum is where
    the gradient is zero. If the surface is nearly flat in some direction, the middle is taken.
    """
    left, right, above, below = cells[..., 1, 0], cells[..., 1, 2], cells[..., 0, 1], cells[..., 2, 1]
    middle, half = cells[..., 1, 1], np.float32(0.5)
    slope_x, slope_y = (right - left) * half, (below - above) * half
    bend_xx, bend_yy = left - middle + right - middle, above - middle + below - middle
    bend_xy = (cells[..., 0, 0] - cells[..., 0, 2] - cells[..., 2, 0] + cells[..., 2, 2]) * half * half
    crossed = bend_xy * bend_xy
    determinant = bend_xx * bend_yy - crossed
    solvable = np.abs(determinant) >= tolerance + tolerance * crossed
    divisor = np.where(solvable, determinant, np.float32(1))
    x = np.where(solvable, (bend_xy * slope_y - bend_yy * slope_x) / divisor, np.float32(0))
    y = np.where(solvable, (bend_xy * slope_x - bend_xx * slope_y) / divisor, np.float32(0))
    shrink = _FARTHEST / np.maximum(np.maximum(np.abs(x), np.abs(y)), _FARTHEST)
    x, y = x * shrink, y * shrink
    gains = slope_x * x + slope_y * y + half * (bend_xx * x * x + bend_yy * y * y) + bend_xy * x * y
    return np.stack((x, y), axis=-1), gains
