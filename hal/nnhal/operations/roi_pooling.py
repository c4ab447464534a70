"""ROI_POOLING: regions of feature maps, reduced to one size by maximum."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._regions import region_dimensions, validate_regions
from nnhal.operations._shape import require_input_quantization
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

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
    LAYOUT = 7


def validate(op: Signature) -> None:
    """Require feature maps and regions."""
    op.count(8, names=Input)
    validate_regions(op, Input.LAYOUT)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of a feature map of the given size for each region."""
    require_input_quantization(op, Input.FEATURES)
    return (region_dimensions(op, Input.LAYOUT),)


ROI_POOLING = OperationDefinition(OperationType.ROI_POOLING, 3, validate, prepare)
