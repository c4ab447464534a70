"""Regions of interest in feature maps."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._boxes import require_boxes
from nnhal.kernels._quantization import to_real
from nnhal.kernels._types import Array, Floats
from nnhal.operations import OperationContext
from nnhal.operations.regions import RegionInput


def scaled_regions(op: OperationContext) -> tuple[Floats, Array]:
    """The regions, in cells of the feature maps, and the index of each region's feature map."""
    ratios = np.array([op.real(RegionInput.RATIO_WIDTH), op.real(RegionInput.RATIO_HEIGHT)] * 2, np.float32)
    regions = to_real(op, RegionInput.ROIS) / ratios
    require_boxes(op, regions)
    return regions, op.value(RegionInput.BATCH_INDEX)


def channels_last(values: Array, channels_first: bool) -> Array:
    """A feature map as [images, height, width, channels]."""
    return values.transpose(0, 2, 3, 1) if channels_first else values


def channels_back(values: Array, channels_first: bool) -> Array:
    """Undo ``channels_last``."""
    return values.transpose(0, 3, 1, 2) if channels_first else values
