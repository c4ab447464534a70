"""Rules that ROI_ALIGN and ROI_POOLING share: regions of interest are cut out of feature maps."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._boxes import BOX, MAIN_TYPES, agreed, box_type, require_eighths
from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._parameters import require_at_least, require_indices, require_positive
from nnhal.operations._types import BOOL, I32, INT32, scalar_float
from nnhal.types.layout import Dimensions


class RegionInput(IntEnum):
    """The first inputs of both operations. A ratio is that of image pixels to cells of the feature map."""

    FEATURES = 0
    """Images."""
    ROIS = 1
    """[regions, 4]: x1, y1, x2, y2 in pixels of the image."""
    BATCH_INDEX = 2
    """[regions]: the image of each region."""
    OUTPUT_HEIGHT = 3
    """Cells."""
    OUTPUT_WIDTH = 4
    """Cells."""
    RATIO_HEIGHT = 5
    """Pixels of the image for each cell."""
    RATIO_WIDTH = 6
    """Pixels of the image for each cell."""


def validate_regions(op: Signature, layout: int) -> None:
    """Check the common inputs, the layout flag and the output."""
    main = op.tensor(RegionInput.FEATURES, MAIN_TYPES, rank=4)
    op.tensor(RegionInput.ROIS, {box_type(main): 3}, rank=2)
    op.tensor(RegionInput.BATCH_INDEX, {I32: 3}, rank=1)
    op.scalar(RegionInput.OUTPUT_HEIGHT, INT32)
    op.scalar(RegionInput.OUTPUT_WIDTH, INT32)
    op.scalar(RegionInput.RATIO_HEIGHT, scalar_float(main))
    op.scalar(RegionInput.RATIO_WIDTH, scalar_float(main))
    op.scalar(layout, BOOL)
    op.output(0, main, rank=4)


def region_dimensions(op: OperationContext, layout: int) -> Dimensions:
    """Return the dimensions of the output: one image of the given size for each region."""
    features, rois = op.ranked(RegionInput.FEATURES, 4), op.ranked(RegionInput.ROIS, 2)
    if op.executing and 0 in features[1:]:
        op.refuse(f"the feature maps have dimensions {list(features)}, expected height, width and channels above 0")
    count = agreed(op, "regions", rois[0], op.ranked(RegionInput.BATCH_INDEX, 1)[0])
    agreed(op, "numbers of a region", rois[1], BOX)
    require_eighths(op, op.inputs[RegionInput.ROIS])
    require_indices(op, RegionInput.BATCH_INDEX, features[0])
    height = require_at_least(op, "output_height", op.integer(RegionInput.OUTPUT_HEIGHT), 1)
    width = require_at_least(op, "output_width", op.integer(RegionInput.OUTPUT_WIDTH), 1)
    require_positive(op, "ratio_height", op.real(RegionInput.RATIO_HEIGHT))
    require_positive(op, "ratio_width", op.real(RegionInput.RATIO_WIDTH))
    if op.boolean(layout):
        return count, features[1], height, width
    return count, height, width, features[3]
