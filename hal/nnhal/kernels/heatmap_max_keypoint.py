"""HEATMAP_MAX_KEYPOINT."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._boxes import require_boxes
from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._types import Array, Floats
from nnhal.operations import OperationContext
from nnhal.operations.regions import HeatmapMaxKeypointInput
from nnhal.types import OperandType

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
