"""ROI_ALIGN: regions of feature maps, sampled between cells and averaged to one size."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._parameters import require_at_least
from nnhal.operations._regions import region_dimensions, validate_regions
from nnhal.operations._types import INT32
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs. Samples are per cell of the output; 0 takes as many as the region has cells there."""

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
    SAMPLES_HEIGHT = 7
    """For each cell of the output; 0 for as many as the region has cells there."""
    SAMPLES_WIDTH = 8
    """For each cell of the output; 0 for as many as the region has cells there."""
    LAYOUT = 9


def validate(op: Signature) -> None:
    """Require feature maps, regions, and parameters of the sampling."""
    op.count(10, names=Input)
    validate_regions(op, Input.LAYOUT)
    op.scalar(Input.SAMPLES_HEIGHT, INT32)
    op.scalar(Input.SAMPLES_WIDTH, INT32)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return the dimensions of a feature map of the given size for each region."""
    for index in (Input.SAMPLES_HEIGHT, Input.SAMPLES_WIDTH):
        require_at_least(op, index.name.lower(), op.integer(index), 0)
    return (region_dimensions(op, Input.LAYOUT),)


ROI_ALIGN = OperationDefinition(OperationType.ROI_ALIGN, 3, validate, prepare)
