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
    ROIS = 1
    BATCH_INDEX = 2
    OUTPUT_HEIGHT = 3
    OUTPUT_WIDTH = 4
    RATIO_HEIGHT = 5
    RATIO_WIDTH = 6
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
