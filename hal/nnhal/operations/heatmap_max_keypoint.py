"""HEATMAP_MAX_KEYPOINT: the position of each heatmap's maximum, interpolated between cells."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._boxes import BOX, MAIN_TYPES, agreed, box_type, require_eighths
from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._parameters import require_at_least
from nnhal.operations._types import BOOL
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    HEATMAPS = 0
    """Images, square, with a channel for each keypoint."""
    BOXES = 1
    """[boxes, 4]: x1, y1, x2, y2."""
    LAYOUT = 2


def validate(op: Signature) -> None:
    """Require square heatmaps, with a channel for each keypoint, and the box that each heatmap covers."""
    op.count(3, outputs=2, names=Input)
    main = op.tensor(Input.HEATMAPS, MAIN_TYPES, rank=4)
    op.tensor(Input.BOXES, {box_type(main): 3}, rank=2)
    op.scalar(Input.LAYOUT, BOOL)
    op.output(0, main, rank=2)
    op.output(1, box_type(main), rank=3)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return scores [boxes, keypoints] and points [boxes, keypoints, 2], x before y."""
    heatmaps, boxes = op.ranked(Input.HEATMAPS, 4), op.ranked(Input.BOXES, 2)
    height, width, keypoints = (heatmaps[2], heatmaps[3], heatmaps[1]) if op.boolean(Input.LAYOUT) else heatmaps[1:]
    size = agreed(op, "height and width of a heatmap", height, width)
    if size or op.executing:
        require_at_least(op, "the size of a heatmap", size, 2)
    count = agreed(op, "boxes", heatmaps[0], boxes[0])
    agreed(op, "numbers of a box", boxes[1], BOX)
    require_eighths(op, op.inputs[Input.BOXES], op.outputs[1])
    return (count, keypoints), (count, keypoints, 2)


HEATMAP_MAX_KEYPOINT = OperationDefinition(OperationType.HEATMAP_MAX_KEYPOINT, 3, validate, prepare)
