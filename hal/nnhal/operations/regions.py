"""Regions of images: pooled, and their keypoints.

ROI_ALIGN: regions of feature maps, sampled between cells and averaged to one size.

ROI_POOLING: regions of feature maps, reduced to one size by maximum.

HEATMAP_MAX_KEYPOINT: the position of each heatmap's maximum, interpolated between cells.
"""

from __future__ import annotations

from nnhal.operations.boxes import BOX, MAIN_TYPES, agreed, box_type, require_eighths
from nnhal.operations.context import OperationContext
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.dimensions import require_input_quantization
from nnhal.operations.layout_rules import OnImages
from nnhal.operations.operand_types import BOOL, I32, INT32
from nnhal.operations.operands import (
    Inputs,
    follows,
    parameter,
    same,
    scalar,
    signature,
    tensor,
)
from nnhal.operations.parameters import require_at_least, require_indices, require_positive
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


def region_dimensions(op: OperationContext, layout: int) -> Dimensions:
    """Return the dimensions of the output: one image of the given size for each region."""
    features, rois = op.ranked(RoiPoolingInput.FEATURES, 4), op.ranked(RoiPoolingInput.ROIS, 2)
    if op.executing and 0 in features[1:]:
        op.refuse(f"the feature maps have dimensions {list(features)}, expected height, width and channels above 0")
    count = agreed(op, "regions", rois[0], op.ranked(RoiPoolingInput.BATCH_INDEX, 1)[0])
    agreed(op, "numbers of a region", rois[1], BOX)
    require_eighths(op, op.inputs[RoiPoolingInput.ROIS])
    require_indices(op, RoiPoolingInput.BATCH_INDEX, features[0])
    height = require_at_least(op, "output_height", op.integer(RoiPoolingInput.OUTPUT_HEIGHT), 1)
    width = require_at_least(op, "output_width", op.integer(RoiPoolingInput.OUTPUT_WIDTH), 1)
    require_positive(op, "ratio_height", op.real(RoiPoolingInput.RATIO_HEIGHT))
    require_positive(op, "ratio_width", op.real(RoiPoolingInput.RATIO_WIDTH))
    if op.boolean(layout):
        return count, features[1], height, width
    return count, height, width, features[3]


class RoiAlignInput(Inputs):
    """The inputs. Samples are per cell of the output; 0 takes as many as the region has cells there."""

    FEATURES = tensor(MAIN_TYPES, rank=4), "Images."
    ROIS = follows(box_type, rank=2), "[regions, 4]: x1, y1, x2, y2 in pixels of the image."
    BATCH_INDEX = tensor({I32: 3}, rank=1), "[regions]: the image of each region."
    OUTPUT_HEIGHT = scalar(INT32), "Cells."
    OUTPUT_WIDTH = scalar(INT32), "Cells."
    RATIO_HEIGHT = parameter(), "Pixels of the image for each cell."
    RATIO_WIDTH = parameter(), "Pixels of the image for each cell."
    SAMPLES_HEIGHT = scalar(INT32), "For each cell of the output; 0 for as many as the region has cells there."
    SAMPLES_WIDTH = scalar(INT32), "For each cell of the output; 0 for as many as the region has cells there."
    LAYOUT = scalar(BOOL)


def prepare_roi_align(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of a feature map of the given size for each region."""
    for index in (RoiAlignInput.SAMPLES_HEIGHT, RoiAlignInput.SAMPLES_WIDTH):
        require_at_least(op, index.name.lower(), op.integer(index), 0)
    return (region_dimensions(op, RoiAlignInput.LAYOUT),)


ROI_ALIGN = OperationDefinition(
    OperationType.ROI_ALIGN,
    3,
    signature(RoiAlignInput, same(rank=4)),
    prepare_roi_align,
    layout=OnImages(RoiAlignInput.LAYOUT),
)


class RoiPoolingInput(Inputs):
    FEATURES = tensor(MAIN_TYPES, rank=4), "Images."
    ROIS = follows(box_type, rank=2), "[regions, 4]: x1, y1, x2, y2 in pixels of the image."
    BATCH_INDEX = tensor({I32: 3}, rank=1), "[regions]: the image of each region."
    OUTPUT_HEIGHT = scalar(INT32), "Cells."
    OUTPUT_WIDTH = scalar(INT32), "Cells."
    RATIO_HEIGHT = parameter(), "Pixels of the image for each cell."
    RATIO_WIDTH = parameter(), "Pixels of the image for each cell."
    LAYOUT = scalar(BOOL)


def prepare_roi_pooling(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of a feature map of the given size for each region."""
    require_input_quantization(op, RoiPoolingInput.FEATURES)
    return (region_dimensions(op, RoiPoolingInput.LAYOUT),)


ROI_POOLING = OperationDefinition(
    OperationType.ROI_POOLING,
    3,
    signature(RoiPoolingInput, same(rank=4)),
    prepare_roi_pooling,
    layout=OnImages(RoiPoolingInput.LAYOUT),
)


class HeatmapMaxKeypointInput(Inputs):
    HEATMAPS = tensor(MAIN_TYPES, rank=4), "Images, square, with a channel for each keypoint."
    BOXES = follows(box_type, rank=2), "[boxes, 4]: x1, y1, x2, y2."
    LAYOUT = scalar(BOOL)


def prepare_heatmap_max_keypoint(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return scores [boxes, keypoints] and points [boxes, keypoints, 2], x before y."""
    heatmaps, boxes = op.ranked(HeatmapMaxKeypointInput.HEATMAPS, 4), op.ranked(HeatmapMaxKeypointInput.BOXES, 2)
    height, width, keypoints = (
        (heatmaps[2], heatmaps[3], heatmaps[1]) if op.boolean(HeatmapMaxKeypointInput.LAYOUT) else heatmaps[1:]
    )
    size = agreed(op, "height and width of a heatmap", height, width)
    if size or op.executing:
        require_at_least(op, "the size of a heatmap", size, 2)
    count = agreed(op, "boxes", heatmaps[0], boxes[0])
    agreed(op, "numbers of a box", boxes[1], BOX)
    require_eighths(op, op.inputs[HeatmapMaxKeypointInput.BOXES], op.outputs[1])
    return (count, keypoints), (count, keypoints, 2)


HEATMAP_MAX_KEYPOINT = OperationDefinition(
    OperationType.HEATMAP_MAX_KEYPOINT,
    3,
    signature(HeatmapMaxKeypointInput, same(rank=2), follows(box_type, rank=3)),
    prepare_heatmap_max_keypoint,
    layout=OnImages(HeatmapMaxKeypointInput.LAYOUT, outputs=()),
)
