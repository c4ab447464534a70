"""Boxes around what a network finds: made, moved, chosen.

AXIS_ALIGNED_BBOX_TRANSFORM: regions of interest moved and scaled by deltas, one box for each class.

BOX_WITH_NMS_LIMIT: the boxes of each image and class that remain after non-maximum suppression.

DETECTION_POSTPROCESSING: boxes decoded from anchors and deltas, and the best of them after suppression.

GENERATE_PROPOSALS: anchors at every cell of a feature map, moved by deltas, and the best after suppression.
"""

from __future__ import annotations

from enum import IntEnum

from nnhal.operations.context import OperationContext, Signature
from nnhal.operations.definition import OperationDefinition
from nnhal.operations.dimensions import require_input_quantization
from nnhal.operations.layout_rules import OnImages
from nnhal.operations.operand_types import BOOL, F16, F32, I32, INT32, Q8A, Q8AS, Q16A, Q16S, QUANT8, scalar_float
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


class AxisAlignedBboxTransformInput(IntEnum):
    ROIS = 0
    """[regions, 4]: x1, y1, x2, y2."""
    DELTAS = 1
    """[regions, classes * 4]: dx, dy, dw, dh of each class."""
    BATCH_INDEX = 2
    """[regions]: the image of each region."""
    IMAGE_INFO = 3
    """[images, 2]: height and width."""


def validate_axis_aligned_bbox_transform(op: Signature) -> None:
    """Require boxes and image sizes of one type. The deltas of quantised boxes have a quant8 type."""
    op.count(4, names=AxisAlignedBboxTransformInput)
    boxes = op.tensor(AxisAlignedBboxTransformInput.ROIS, {F16: 3, F32: 3, Q16A: 3}, rank=2)
    op.tensor(AxisAlignedBboxTransformInput.DELTAS, {Q8A: 3, Q8AS: 4} if boxes == Q16A else {boxes: 3}, rank=2)
    op.tensor(AxisAlignedBboxTransformInput.BATCH_INDEX, {I32: 3}, rank=1)
    op.same(AxisAlignedBboxTransformInput.IMAGE_INFO, AxisAlignedBboxTransformInput.ROIS, rank=2)
    op.output(0, boxes, rank=2)


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
    validate_axis_aligned_bbox_transform,
    prepare_axis_aligned_bbox_transform,
)


class BoxWithNmsLimitInput(IntEnum):
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
    """Rule by which a selected box lowers the scores of boxes that overlap it."""

    HARD = 0
    LINEAR = 1
    GAUSSIAN = 2


def validate_box_with_nms_limit(op: Signature) -> None:
    """Require scores [regions, classes] and boxes [regions, classes * 4]."""
    op.count(9, outputs=4, names=BoxWithNmsLimitInput)
    main = op.tensor(BoxWithNmsLimitInput.SCORES, MAIN_TYPES, rank=2)
    op.tensor(BoxWithNmsLimitInput.BOXES, {box_type(main): 3}, rank=2)
    op.tensor(BoxWithNmsLimitInput.BATCH_INDEX, {I32: 3}, rank=1)
    op.scalar(BoxWithNmsLimitInput.MAX_DETECTIONS, INT32)
    op.scalar(BoxWithNmsLimitInput.KERNEL, INT32)
    for index in (
        BoxWithNmsLimitInput.SCORE_THRESHOLD,
        BoxWithNmsLimitInput.IOU_THRESHOLD,
        BoxWithNmsLimitInput.SIGMA,
        BoxWithNmsLimitInput.NMS_SCORE_THRESHOLD,
    ):
        op.scalar(index, scalar_float(main))
    op.output(0, main, rank=1)
    op.output(1, box_type(main), rank=2)
    op.output(2, I32, rank=1)
    op.output(3, I32, rank=1)


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
    OperationType.BOX_WITH_NMS_LIMIT, 3, validate_box_with_nms_limit, prepare_box_with_nms_limit, depends_on_values=True
)


class DetectionPostprocessingInput(IntEnum):
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
    """True if each class is suppressed by itself, rather than the best classes of each anchor together."""
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
    """True if labels count the background as 0."""


def validate_detection_postprocessing(op: Signature) -> None:
    """Require scores [images, anchors, classes] and deltas [images, anchors, 4 or more]."""
    op.count(14, outputs=4, names=DetectionPostprocessingInput)
    main = op.tensor(DetectionPostprocessingInput.SCORES, {F16: 3, F32: 3}, rank=3)
    op.same(DetectionPostprocessingInput.DELTAS, DetectionPostprocessingInput.SCORES, rank=3)
    op.same(DetectionPostprocessingInput.ANCHORS, DetectionPostprocessingInput.SCORES, rank=2)
    for index in (
        *range(DetectionPostprocessingInput.SCALE_Y, DetectionPostprocessingInput.SCALE_W + 1),
        DetectionPostprocessingInput.SCORE_THRESHOLD,
        DetectionPostprocessingInput.IOU_THRESHOLD,
    ):
        op.scalar(index, scalar_float(main))
    for index in range(
        DetectionPostprocessingInput.MAX_DETECTIONS, DetectionPostprocessingInput.MAX_DETECTIONS_PER_CLASS + 1
    ):
        op.scalar(index, INT32)
    op.scalar(DetectionPostprocessingInput.REGULAR_NMS, BOOL)
    op.scalar(DetectionPostprocessingInput.ADD_BACKGROUND_LABEL, BOOL)
    op.output(0, main, rank=2)
    op.output(1, main, rank=3)
    op.output(2, I32, rank=2)
    op.output(3, I32, rank=1)


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
    for index in range(DetectionPostprocessingInput.SCALE_Y, DetectionPostprocessingInput.SCALE_W + 1):
        require_positive(op, DetectionPostprocessingInput(index).name.lower(), op.real(index))
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
    OperationType.DETECTION_POSTPROCESSING, 3, validate_detection_postprocessing, prepare_detection_postprocessing
)


class GenerateProposalsInput(IntEnum):
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


def validate_generate_proposals(op: Signature) -> None:
    """Require scores and deltas of one type, with a channel for each anchor and for each of its four deltas."""
    op.count(11, outputs=3, names=GenerateProposalsInput)
    main = op.tensor(GenerateProposalsInput.SCORES, MAIN_TYPES, rank=4)
    op.same(GenerateProposalsInput.DELTAS, GenerateProposalsInput.SCORES, rank=4)
    op.tensor(GenerateProposalsInput.ANCHORS, {Q16S if main in QUANT8 else main: 3}, rank=2)
    op.tensor(GenerateProposalsInput.IMAGE_INFO, {box_type(main): 3}, rank=2)
    for index in (
        GenerateProposalsInput.RATIO_HEIGHT,
        GenerateProposalsInput.RATIO_WIDTH,
        GenerateProposalsInput.IOU_THRESHOLD,
        GenerateProposalsInput.MIN_SIZE,
    ):
        op.scalar(index, scalar_float(main))
    op.scalar(GenerateProposalsInput.PRE_NMS_MAX, INT32)
    op.scalar(GenerateProposalsInput.POST_NMS_MAX, INT32)
    op.scalar(GenerateProposalsInput.LAYOUT, BOOL)
    op.output(0, main, rank=1)
    op.output(1, box_type(main), rank=2)
    op.output(2, I32, rank=1)


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
    validate_generate_proposals,
    prepare_generate_proposals,
    depends_on_values=True,
    layout=OnImages(GenerateProposalsInput.LAYOUT, inputs=(0, 1), outputs=()),
)
