"""BOX_WITH_NMS_LIMIT: the boxes of each image and class that remain after non-maximum suppression."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._boxes import BOX, MAIN_TYPES, agreed, box_type, require_eighths, require_equal_outputs
from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._parameters import require_at_least
from nnhal.operations._shape import require_input_quantization
from nnhal.operations._types import I32, INT32, scalar_float
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    SCORES = 0
    """[regions, classes]; class 0 is the background."""
    BOXES = 1
    """[regions, classes * 4]: x1, y1, x2, y2 of each class."""
    BATCH_INDEX = 2
    """[regions]: the image of each region."""
    SCORE_THRESHOLD = 3
    """Boxes below it are dropped first."""
    MAX_DETECTIONS = 4
    """The most boxes; below 0 for no limit."""
    KERNEL = 5
    """0 hard, 1 linear, 2 Gaussian."""
    IOU_THRESHOLD = 6
    """The overlap from which on a box is suppressed."""
    SIGMA = 7
    """Of the Gaussian kernel."""
    NMS_SCORE_THRESHOLD = 8
    """Boxes whose lowered score is below it are dropped."""


class NmsKernel(IntEnum):
    """How a selected box lowers the scores of boxes that overlap it."""

    HARD = 0
    LINEAR = 1
    GAUSSIAN = 2


def validate(op: Signature) -> None:
    """Require scores [regions, classes] and boxes [regions, classes * 4]."""
    op.count(9, outputs=4, names=Input)
    main = op.tensor(Input.SCORES, MAIN_TYPES, rank=2)
    op.tensor(Input.BOXES, {box_type(main): 3}, rank=2)
    op.tensor(Input.BATCH_INDEX, {I32: 3}, rank=1)
    op.scalar(Input.MAX_DETECTIONS, INT32)
    op.scalar(Input.KERNEL, INT32)
    for index in (Input.SCORE_THRESHOLD, Input.IOU_THRESHOLD, Input.SIGMA, Input.NMS_SCORE_THRESHOLD):
        op.scalar(index, scalar_float(main))
    op.output(0, main, rank=1)
    op.output(1, box_type(main), rank=2)
    op.output(2, I32, rank=1)
    op.output(3, I32, rank=1)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return scores [boxes], boxes [boxes, 4], classes [boxes] and images [boxes]; the values decide how many."""
    scores, boxes = op.ranked(Input.SCORES, 2), op.ranked(Input.BOXES, 2)
    agreed(op, "regions", scores[0], boxes[0], op.ranked(Input.BATCH_INDEX, 1)[0])
    agreed(op, "numbers of a region's boxes", scores[1] * BOX, boxes[1])
    if op.executing:
        require_at_least(op, "the number of classes", scores[1], 1)
    kernel = op.integer(Input.KERNEL)
    if kernel not in tuple(NmsKernel):
        op.refuse(f"kernel {kernel}, expected 0 (hard), 1 (linear) or 2 (gaussian)")
    if kernel == NmsKernel.GAUSSIAN and not op.real(Input.SIGMA) > 0:
        op.refuse(f"sigma is {op.real(Input.SIGMA)}, expected more than 0")
    require_input_quantization(op, Input.SCORES)
    require_eighths(op, op.inputs[Input.BOXES], op.outputs[1])
    require_equal_outputs(op, "boxes")
    return (0,), (0, BOX), (0,), (0,)


BOX_WITH_NMS_LIMIT = OperationDefinition(OperationType.BOX_WITH_NMS_LIMIT, 3, validate, prepare, depends_on_values=True)
