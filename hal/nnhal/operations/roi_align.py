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
    ROIS = 1
    BATCH_INDEX = 2
    OUTPUT_HEIGHT = 3
    OUTPUT_WIDTH = 4
    RATIO_HEIGHT = 5
    RATIO_WIDTH = 6
    SAMPLES_HEIGHT = 7
    SAMPLES_WIDTH = 8
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
