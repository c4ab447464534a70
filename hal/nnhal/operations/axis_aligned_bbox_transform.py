"""AXIS_ALIGNED_BBOX_TRANSFORM: regions of interest moved and scaled by deltas, one box for each class."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._boxes import BOX, agreed, require_eighths
from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._parameters import require_indices
from nnhal.operations._types import F16, F32, I32, Q8A, Q8AS, Q16A
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    ROIS = 0
    """[regions, 4]: x1, y1, x2, y2."""
    DELTAS = 1
    """[regions, classes * 4]: dx, dy, dw, dh of each class."""
    BATCH_INDEX = 2
    """[regions]: the image of each region."""
    IMAGE_INFO = 3
    """[images, 2]: height and width."""


def validate(op: Signature) -> None:
    """Require boxes and image sizes of one type. The deltas of quantised boxes have a quant8 type."""
    op.count(4, names=Input)
    boxes = op.tensor(Input.ROIS, {F16: 3, F32: 3, Q16A: 3}, rank=2)
    op.tensor(Input.DELTAS, {Q8A: 3, Q8AS: 4} if boxes == Q16A else {boxes: 3}, rank=2)
    op.tensor(Input.BATCH_INDEX, {I32: 3}, rank=1)
    op.same(Input.IMAGE_INFO, Input.ROIS, rank=2)
    op.output(0, boxes, rank=2)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return [regions, classes * 4]: a box for each region and class."""
    rois, deltas = op.ranked(Input.ROIS, 2), op.ranked(Input.DELTAS, 2)
    count = agreed(op, "regions", rois[0], deltas[0], op.ranked(Input.BATCH_INDEX, 1)[0])
    agreed(op, "numbers of a box", rois[1], BOX)
    images, size = op.ranked(Input.IMAGE_INFO, 2)
    agreed(op, "numbers of an image's size", size, 2)
    require_indices(op, Input.BATCH_INDEX, images)
    if deltas[1] % BOX:
        op.refuse(f"got {deltas[1]} deltas for each region, expected a multiple of {BOX}")
    require_eighths(op, op.inputs[Input.ROIS], op.inputs[Input.IMAGE_INFO], op.outputs[0])
    return ((count, deltas[1]),)


AXIS_ALIGNED_BBOX_TRANSFORM = OperationDefinition(OperationType.AXIS_ALIGNED_BBOX_TRANSFORM, 3, validate, prepare)
