"""Boxes around what a network finds: made, moved, chosen.

AXIS_ALIGNED_BBOX_TRANSFORM: regions of interest moved and scaled by deltas, one box for each class.

BOX_WITH_NMS_LIMIT: the boxes of each image and class that remain after non-maximum suppression.

DETECTION_POSTPROCESSING: boxes decoded from anchors and deltas, and the best of them after suppression.

GENERATE_PROPOSALS: anchors at every cell of a feature map, moved by deltas, and the best after suppression.
"""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations.context import OperationContext
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.dimensions import require_input_quantization
from nnhal.operations.layout_rules import OnImages
from nnhal.operations.operand_types import BOOL, F16, F32, I32, INT32, Q8A, Q8AS, Q16A, Q16S, QUANT8
from nnhal.operations.operands import (
    Inputs,
    Levels,
    follows,
    parameter,
    same,
    scalar,
    signature,
    tensor,
)
from nnhal.operations.parameters import require_at_least, require_indices, require_positive
from nnhal.types import Operand, OperandType, OperationType
from nnhal.types.layout import Dimensions

BOX = 4
"""How many numbers describe one box."""

MAIN_TYPES: dict[OperandType, int] = {F16: 3, F32: 3, Q8A: 3, Q8AS: 4}
"""The types of scores and feature maps, each with its feature level."""

_EIGHTH = 0.125


def box_type(main: int) -> OperandType:
    """Return the type of boxes that belong to scores or feature maps of type ``main``."""
    return Q16A if main in QUANT8 else OperandType(main)


def require_eighths(op: OperationContext, *operands: Operand) -> None:
    """Refuse quantised boxes that are not in eighths of a pixel."""
    for operand in operands:
        if operand.type in (Q16A, Q16S) and (operand.scale, operand.zero_point) != (_EIGHTH, 0):
            op.refuse(f"boxes have scale {operand.scale} and zero point {operand.zero_point}, expected {_EIGHTH} and 0")


def require_equal_outputs(op: OperationContext, boxes: str) -> None:
    """Refuse outputs that are declared with different numbers of boxes. How many they get, only the values tell."""
    declared = {output.dimensions[0] for output in op.outputs if output.dimensions} - {0}
    if len(declared) > 1:
        op.refuse(f"the outputs have {' and '.join(map(str, sorted(declared)))} {boxes}, expected equal numbers")


def agreed(op: OperationContext, what: str, *lengths: int) -> int:
    """Return the common length of several axes, 0 if none of them is known yet. Refuse different lengths."""
    known = set(lengths) if op.executing else set(lengths) - {0}
    if len(known) > 1:
        op.refuse(f"{what}: its operands have {' and '.join(map(str, sorted(known)))}, expected equal numbers")
    return max(known, default=0)


def _delta_types(boxes: int) -> OperandType | Levels:
    return {Q8A: 3, Q8AS: 4} if boxes == Q16A else OperandType(boxes)


class AxisAlignedBboxTransformInput(Inputs):
    ROIS = tensor({F16: 3, F32: 3, Q16A: 3}, rank=2), "[regions, 4]: x1, y1, x2, y2."
    DELTAS = follows(_delta_types, rank=2), "[regions, classes * 4]: dx, dy, dw, dh of each class."
    BATCH_INDEX = tensor({I32: 3}, rank=1), "[regions]: the image of each region."
    IMAGE_INFO = same(rank=2), "[images, 2]: height and width."


def prepare_axis_aligned_bbox_transform(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return [regions, classes * 4]: a box for each region and class."""
    rois, deltas = op.ranked(AxisAlignedBboxTransformInput.ROIS, 2), op.ranked(AxisAlignedBboxTransformInput.DELTAS, 2)
    count = agreed(op, "regions", rois[0], deltas[0], op.ranked(AxisAlignedBboxTransformInput.BATCH_INDEX, 1)[0])
    agreed(op, "numbers of a box", rois[1], BOX)
    images, size = op.ranked(AxisAlignedBboxTransformInput.IMAGE_INFO, 2)
    agreed(op, "numbers of an image's size", size, 2)
    require_indices(op, AxisAlignedBboxTransformInput.BATCH_INDEX, images)
    if deltas[1] % BOX:
        op.refuse(f"got {deltas[1]} deltas for each region, expected a multiple of {BOX}")
    require_eighths(
        op,
        op.inputs[AxisAlignedBboxTransformInput.ROIS],
        op.inputs[AxisAlignedBboxTransformInput.IMAGE_INFO],
        op.outputs[0],
    )
    return ((count, deltas[1]),)


AXIS_ALIGNED_BBOX_TRANSFORM = OperationDefinition(
    OperationType.AXIS_ALIGNED_BBOX_TRANSFORM,
    3,
    signature(AxisAlignedBboxTransformInput, same(rank=2)),
    prepare_axis_aligned_bbox_transform,
)


class BoxWithNmsLimitInput(Inputs):
    SCORES = tensor(MAIN_TYPES, rank=2), "[regions, classes]; class 0 is the background."
    BOXES = follows(box_type, rank=2), "[regions, classes * 4]: x1, y1, x2, y2 of each class."
    BATCH_INDEX = tensor({I32: 3}, rank=1), "[regions]: the image of each region."
    SCORE_THRESHOLD = parameter(), "Boxes below it are dropped first."
    MAX_DETECTIONS = scalar(INT32), "The most boxes; below 0 for no limit."
    KERNEL = scalar(INT32), "0 hard, 1 linear, 2 Gaussian."
    IOU_THRESHOLD = parameter(), "The overlap from which on a box is suppressed."
    SIGMA = parameter(), "Of the Gaussian kernel."
    NMS_SCORE_THRESHOLD = parameter(), "Boxes whose lowered score is below it are dropped."


class NmsKernel(IntEnum):
    """Rule by which a selected box lowers the scores of boxes that overlap it."""

    HARD = 0
    LINEAR = 1
    GAUSSIAN = 2


def prepare_box_with_nms_limit(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return scores [boxes], boxes [boxes, 4], classes [boxes] and images [boxes]; the values decide how many."""
    scores, boxes = op.ranked(BoxWithNmsLimitInput.SCORES, 2), op.ranked(BoxWithNmsLimitInput.BOXES, 2)
    agreed(op, "regions", scores[0], boxes[0], op.ranked(BoxWithNmsLimitInput.BATCH_INDEX, 1)[0])
    agreed(op, "numbers of a region's boxes", scores[1] * BOX, boxes[1])
    if op.executing:
        require_at_least(op, "the number of classes", scores[1], 1)
    kernel = op.integer(BoxWithNmsLimitInput.KERNEL)
    if kernel not in tuple(NmsKernel):
        op.refuse(f"kernel {kernel}, expected 0 (hard), 1 (linear) or 2 (gaussian)")
    if kernel == NmsKernel.GAUSSIAN and not op.real(BoxWithNmsLimitInput.SIGMA) > 0:
        op.refuse(f"sigma is {op.real(BoxWithNmsLimitInput.SIGMA)}, expected more than 0")
    require_input_quantization(op, BoxWithNmsLimitInput.SCORES)
    require_eighths(op, op.inputs[BoxWithNmsLimitInput.BOXES], op.outputs[1])
    require_equal_outputs(op, "boxes")
    return (0,), (0, BOX), (0,), (0,)


BOX_WITH_NMS_LIMIT = OperationDefinition(
    OperationType.BOX_WITH_NMS_LIMIT,
    3,
    signature(
        BoxWithNmsLimitInput,
        same(rank=1),
        follows(box_type, rank=2),
        tensor({I32: 3}, rank=1),
        tensor({I32: 3}, rank=1),
    ),
    prepare_box_with_nms_limit,
    depends_on_values=True,
)


class DetectionPostprocessingInput(Inputs):
    """The inputs. Boxes are given by centre and size, y before x."""

    SCORES = tensor({F16: 3, F32: 3}, rank=3), "[images, anchors, classes]; class 0 is the background."
    DELTAS = same(rank=3), "[images, anchors, 4 or more]: dy, dx, dh, dw."
    ANCHORS = same(rank=2), "[anchors, 4]: centre y, centre x, height, width."
    SCALE_Y = parameter(), "Divides dy."
    SCALE_X = parameter(), "Divides dx."
    SCALE_H = parameter(), "Divides dh."
    SCALE_W = parameter(), "Divides dw."
    REGULAR_NMS = (
        scalar(BOOL),
        "True if each class is suppressed by itself, rather than the best classes of each anchor together.",
    )
    MAX_DETECTIONS = scalar(INT32), "The most detections of an image."
    MAX_CLASSES_PER_DETECTION = scalar(INT32), "Of an anchor, without regular suppression."
    MAX_DETECTIONS_PER_CLASS = scalar(INT32), "With regular suppression."
    SCORE_THRESHOLD = parameter(), "Boxes below it are dropped."
    IOU_THRESHOLD = parameter(), "The overlap from which on a box is suppressed."
    ADD_BACKGROUND_LABEL = scalar(BOOL), "True if labels count the background as 0."


def prepare_detection_postprocessing(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return scores [images, most], boxes [images, most, 4], classes [images, most] and counts [images]."""
    scores, deltas, anchors = (
        op.ranked(DetectionPostprocessingInput.SCORES, 3),
        op.ranked(DetectionPostprocessingInput.DELTAS, 3),
        op.ranked(DetectionPostprocessingInput.ANCHORS, 2),
    )
    images = agreed(op, "images", scores[0], deltas[0])
    agreed(op, "anchors", scores[1], deltas[1], anchors[0])
    agreed(op, "numbers of an anchor", anchors[1], BOX)
    if deltas[2] or op.executing:
        require_at_least(op, "the length of a box's encoding", deltas[2], BOX)
    if scores[2] or op.executing:
        require_at_least(op, "the number of classes with the background", scores[2], 2)
    first, last = DetectionPostprocessingInput.SCALE_Y, DetectionPostprocessingInput.SCALE_W
    for scale in tuple(DetectionPostprocessingInput)[first : last + 1]:
        require_positive(op, scale.name.lower(), op.real(scale))
    if op.boolean(DetectionPostprocessingInput.REGULAR_NMS):
        require_at_least(
            op, "max_detections_per_class", op.integer(DetectionPostprocessingInput.MAX_DETECTIONS_PER_CLASS), 1
        )
    else:
        require_at_least(
            op, "max_classes_per_detection", op.integer(DetectionPostprocessingInput.MAX_CLASSES_PER_DETECTION), 1
        )
    most = require_at_least(op, "max_detections", op.integer(DetectionPostprocessingInput.MAX_DETECTIONS), 1)
    return (images, most), (images, most, BOX), (images, most), (images,)


DETECTION_POSTPROCESSING = OperationDefinition(
    OperationType.DETECTION_POSTPROCESSING,
    3,
    signature(
        DetectionPostprocessingInput, same(rank=2), same(rank=3), tensor({I32: 3}, rank=2), tensor({I32: 3}, rank=1)
    ),
    prepare_detection_postprocessing,
)


def _anchor_type(main: int) -> OperandType:
    return Q16S if main in QUANT8 else OperandType(main)


class GenerateProposalsInput(Inputs):
    SCORES = tensor(MAIN_TYPES, rank=4), "Images, with a channel for each anchor."
    DELTAS = same(rank=4), "Images, with four channels for each anchor: dx, dy, dw, dh."
    ANCHORS = follows(_anchor_type, rank=2), "[anchors, 4]: x1, y1, x2, y2."
    IMAGE_INFO = follows(box_type, rank=2), "[images, 2]: height and width."
    RATIO_HEIGHT = parameter(), "Pixels of the image for each cell."
    RATIO_WIDTH = parameter(), "Pixels of the image for each cell."
    PRE_NMS_MAX = scalar(INT32), "The most boxes before suppression; 0 or less for no limit."
    POST_NMS_MAX = scalar(INT32), "The most boxes after it; 0 or less for no limit."
    IOU_THRESHOLD = parameter(), "The overlap from which on a box is suppressed."
    MIN_SIZE = parameter(), "Boxes that are smaller are dropped."
    LAYOUT = scalar(BOOL)


def prepare_generate_proposals(op: OperationContext) -> tuple[Dimensions, ...]:
    """Return scores [boxes], boxes [boxes, 4] and images [boxes], as many as the values decide."""
    scores, deltas = op.ranked(GenerateProposalsInput.SCORES, 4), op.ranked(GenerateProposalsInput.DELTAS, 4)
    anchors, images = op.ranked(GenerateProposalsInput.ANCHORS, 2), op.ranked(GenerateProposalsInput.IMAGE_INFO, 2)
    channel = 1 if op.boolean(GenerateProposalsInput.LAYOUT) else 3
    agreed(op, "images", scores[0], deltas[0], images[0])
    for axis in {1, 2, 3} - {channel}:
        agreed(op, f"axis {axis} of scores and deltas", scores[axis], deltas[axis])
    agreed(op, "deltas of one cell", scores[channel] * BOX, deltas[channel], anchors[0] * BOX)
    agreed(op, "numbers of an anchor", anchors[1], BOX)
    agreed(op, "numbers of an image's size", images[1], 2)
    require_positive(op, "ratio_height", op.real(GenerateProposalsInput.RATIO_HEIGHT))
    require_positive(op, "ratio_width", op.real(GenerateProposalsInput.RATIO_WIDTH))
    require_input_quantization(op, GenerateProposalsInput.SCORES)
    require_eighths(
        op, op.inputs[GenerateProposalsInput.ANCHORS], op.inputs[GenerateProposalsInput.IMAGE_INFO], op.outputs[1]
    )
    require_equal_outputs(op, "proposals")
    return (0,), (0, BOX), (0,)


GENERATE_PROPOSALS = OperationDefinition(
    OperationType.GENERATE_PROPOSALS,
    3,
    signature(GenerateProposalsInput, same(rank=1), follows(box_type, rank=2), tensor({I32: 3}, rank=1)),
    prepare_generate_proposals,
    depends_on_values=True,
    layout=OnImages(GenerateProposalsInput.LAYOUT, inputs=(0, 1), outputs=()),
)
