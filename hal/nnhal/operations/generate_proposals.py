"""GENERATE_PROPOSALS: anchors at every cell of a feature map, moved by deltas, and the best after suppression."""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations._boxes import BOX, MAIN_TYPES, agreed, box_type, require_eighths, require_equal_outputs
from nnhal.operations._context import OperationContext, Signature
from nnhal.operations._definition import OperationDefinition
from nnhal.operations._parameters import require_positive
from nnhal.operations._shape import require_input_quantization
from nnhal.operations._types import BOOL, I32, INT32, Q16S, QUANT8, scalar_float
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions


class Input(IntEnum):
    """The inputs."""

    SCORES = 0
    """Images, with a channel for each anchor."""
    DELTAS = 1
    """Images, with four channels for each anchor: dx, dy, dw, dh."""
    ANCHORS = 2
    """[anchors, 4]: x1, y1, x2, y2."""
    IMAGE_INFO = 3
    """[images, 2]: height and width."""
    RATIO_HEIGHT = 4
    """Pixels of the image for each cell."""
    RATIO_WIDTH = 5
    """Pixels of the image for each cell."""
    PRE_NMS_MAX = 6
    """The most boxes before suppression; 0 or less for no limit."""
    POST_NMS_MAX = 7
    """The most boxes after it; 0 or less for no limit."""
    IOU_THRESHOLD = 8
    """The overlap from which on a box is suppressed."""
    MIN_SIZE = 9
    """Boxes that are smaller are dropped."""
    LAYOUT = 10


def validate(op: Signature) -> None:
    """Require scores and deltas of one type, with a channel for each anchor and for each of its four deltas."""
    op.count(11, outputs=3, names=Input)
    main = op.tensor(Input.SCORES, MAIN_TYPES, rank=4)
    op.same(Input.DELTAS, Input.SCORES, rank=4)
    op.tensor(Input.ANCHORS, {Q16S if main in QUANT8 else main: 3}, rank=2)
    op.tensor(Input.IMAGE_INFO, {box_type(main): 3}, rank=2)
    for index in (Input.RATIO_HEIGHT, Input.RATIO_WIDTH, Input.IOU_THRESHOLD, Input.MIN_SIZE):
        op.scalar(index, scalar_float(main))
    op.scalar(Input.PRE_NMS_MAX, INT32)
    op.scalar(Input.POST_NMS_MAX, INT32)
    op.scalar(Input.LAYOUT, BOOL)
    op.output(0, main, rank=1)
    op.output(1, box_type(main), rank=2)
    op.output(2, I32, rank=1)


def prepare(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return scores [boxes], boxes [boxes, 4] and images [boxes], as many as the values decide."""
    scores, deltas = op.ranked(Input.SCORES, 4), op.ranked(Input.DELTAS, 4)
    anchors, images = op.ranked(Input.ANCHORS, 2), op.ranked(Input.IMAGE_INFO, 2)
    channel = 1 if op.boolean(Input.LAYOUT) else 3
    agreed(op, "images", scores[0], deltas[0], images[0])
    for axis in {1, 2, 3} - {channel}:
        agreed(op, f"axis {axis} of scores and deltas", scores[axis], deltas[axis])
    agreed(op, "deltas of one cell", scores[channel] * BOX, deltas[channel], anchors[0] * BOX)
    agreed(op, "numbers of an anchor", anchors[1], BOX)
    agreed(op, "numbers of an image's size", images[1], 2)
    require_positive(op, "ratio_height", op.real(Input.RATIO_HEIGHT))
    require_positive(op, "ratio_width", op.real(Input.RATIO_WIDTH))
    require_input_quantization(op, Input.SCORES)
    require_eighths(op, op.inputs[Input.ANCHORS], op.inputs[Input.IMAGE_INFO], op.outputs[1])
    require_equal_outputs(op, "proposals")
    return (0,), (0, BOX), (0,)


GENERATE_PROPOSALS = OperationDefinition(OperationType.GENERATE_PROPOSALS, 3, validate, prepare, depends_on_values=True)
