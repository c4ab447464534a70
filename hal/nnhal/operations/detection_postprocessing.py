"""DETECTION_POSTPROCESSING: boxes decoded from anchors and deltas, and the best of them after suppression."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._boxes import BOX, agreed
from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._parameters import require_at_least, require_positive
from nnhal.operations._types import BOOL, F16, F32, I32, INT32, scalar_float
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs. Boxes are given by centre and size, y before x."""

    SCORES = 0
    """[images, anchors, classes]; class 0 is the background."""
    DELTAS = 1
    """[images, anchors, 4 or more]: dy, dx, dh, dw."""
    ANCHORS = 2
    """[anchors, 4]: centre y, centre x, height, width."""
    SCALE_Y = 3
    """Divides dy."""
    SCALE_X = 4
    """Divides dx."""
    SCALE_H = 5
    """Divides dh."""
    SCALE_W = 6
    """Divides dw."""
    REGULAR_NMS = 7
    """Whether each class is suppressed by itself, rather than the best classes of each anchor together."""
    MAX_DETECTIONS = 8
    """The most detections of an image."""
    MAX_CLASSES_PER_DETECTION = 9
    """Of an anchor, without regular suppression."""
    MAX_DETECTIONS_PER_CLASS = 10
    """With regular suppression."""
    SCORE_THRESHOLD = 11
    """Boxes below it are dropped."""
    IOU_THRESHOLD = 12
    """The overlap from which on a box is suppressed."""
    ADD_BACKGROUND_LABEL = 13
    """Whether labels count the background as 0."""


def validate(op: Signature) -> None:
    """Require scores [images, anchors, classes] and deltas [images, anchors, 4 or more]."""
    op.count(14, outputs=4, names=Input)
    main = op.tensor(Input.SCORES, {F16: 3, F32: 3}, rank=3)
    op.same(Input.DELTAS, Input.SCORES, rank=3)
    op.same(Input.ANCHORS, Input.SCORES, rank=2)
    for index in (*range(Input.SCALE_Y, Input.SCALE_W + 1), Input.SCORE_THRESHOLD, Input.IOU_THRESHOLD):
        op.scalar(index, scalar_float(main))
    for index in range(Input.MAX_DETECTIONS, Input.MAX_DETECTIONS_PER_CLASS + 1):
        op.scalar(index, INT32)
    op.scalar(Input.REGULAR_NMS, BOOL)
    op.scalar(Input.ADD_BACKGROUND_LABEL, BOOL)
    op.output(0, main, rank=2)
    op.output(1, main, rank=3)
    op.output(2, I32, rank=2)
    op.output(3, I32, rank=1)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return scores [images, most], boxes [images, most, 4], classes [images, most] and counts [images]."""
    scores, deltas, anchors = op.ranked(Input.SCORES, 3), op.ranked(Input.DELTAS, 3), op.ranked(Input.ANCHORS, 2)
    images = agreed(op, "images", scores[0], deltas[0])
    agreed(op, "anchors", scores[1], deltas[1], anchors[0])
    agreed(op, "numbers of an anchor", anchors[1], BOX)
    if deltas[2] or op.executing:
        require_at_least(op, "the length of a box's encoding", deltas[2], BOX)
    if scores[2] or op.executing:
        require_at_least(op, "the number of classes with the background", scores[2], 2)
    for index in range(Input.SCALE_Y, Input.SCALE_W + 1):
        require_positive(op, Input(index).name.lower(), op.real(index))
    if op.boolean(Input.REGULAR_NMS):
        require_at_least(op, "max_detections_per_class", op.integer(Input.MAX_DETECTIONS_PER_CLASS), 1)
    else:
        require_at_least(op, "max_classes_per_detection", op.integer(Input.MAX_CLASSES_PER_DETECTION), 1)
    most = require_at_least(op, "max_detections", op.integer(Input.MAX_DETECTIONS), 1)
    return (images, most), (images, most, BOX), (images, most), (images,)


DETECTION_POSTPROCESSING = OperationDefinition(OperationType.DETECTION_POSTPROCESSING, 3, validate, prepare)
