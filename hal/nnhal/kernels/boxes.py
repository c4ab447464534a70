"""Boxes around what a network finds: made, moved, chosen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnhal.kernels.array_types import Array, Floats, Integers
from nnhal.kernels.images import channels_last
from nnhal.kernels.quantization import from_real, to_real
from nnhal.operations import OperationContext
from nnhal.operations.boxes import (
    BOX,
    AxisAlignedBboxTransformInput,
    BoxWithNmsLimitInput,
    DetectionPostprocessingInput,
    GenerateProposalsInput,
    NmsKernel,
)

UNLIMITED = -1
_FAR = 2.0**31

Lower = Callable[[Floats, Floats], Floats]
"""Lowers scores, given their boxes' overlaps with the box just selected; -inf drops a box."""


def require_boxes(op: OperationContext, boxes: Floats) -> None:
    """Fail if a corner is far outside any image, or the second lies left of or above the first."""
    if not ((np.abs(boxes) < _FAR).all() and (boxes[..., :2] <= boxes[..., 2:]).all()):
        op.fail(f"a box has corners out of order or beyond {_FAR:g}, expected x1 <= x2 and y1 <= y2")


def from_centre(centre: Floats, size: Floats) -> Floats:
    """The corners of boxes of a size around a centre."""
    return np.concatenate((centre - size / 2, centre + size / 2), axis=-1)


def transform(boxes: Floats, deltas: Floats, image_sizes: Floats) -> Floats:
    """Boxes moved by deltas (x, y in sizes of the box; width, height as logarithms), clipped to (height, width)."""
    size = boxes[..., 2:] - boxes[..., :2]
    centre = boxes[..., :2] + (np.float32(0.5) + deltas[..., :2]) * size
    corners = from_centre(centre, np.exp(deltas[..., 2:]) * size)
    limits = np.concatenate((image_sizes[..., ::-1], image_sizes[..., ::-1]), axis=-1)
    return np.minimum(np.maximum(corners, np.float32(0)), limits)


def overlaps(box: Floats, boxes: Floats) -> Floats:
    """Intersection over union of a box with each of the others; 0 if the union is 0."""
    shared = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    intersections = np.maximum(shared, np.float32(0)).prod(axis=1)
    unions = (box[2:] - box[:2]).prod() + (boxes[:, 2:] - boxes[:, :2]).prod(axis=1) - intersections
    ratios: Floats = np.divide(intersections, unions, out=np.zeros_like(unions), where=unions > 0)
    return ratios


def suppress(boxes: Floats, scores: Floats, lower: Lower, limit: int = UNLIMITED) -> tuple[Integers, Floats]:
    """Select the best box, lower the scores of the others by ``lower``, and so on: indexes and final scores."""
    pending = np.arange(len(scores))
    chosen: list[int] = []
    final: list[np.float32] = []
    while pending.size and len(chosen) != limit:
        best = int(scores.argmax())
        chosen.append(int(pending[best]))
        final.append(scores[best])
        lowered = lower(scores, overlaps(boxes[pending[best]], boxes[pending]))
        stays = lowered > -np.inf
        stays[best] = False
        pending, scores = pending[stays], lowered[stays]
    return np.array(chosen, np.int64), np.array(final, np.float32)


def hard(threshold: float) -> Lower:
    """Drop boxes that overlap by the threshold or more."""
    return lambda scores, overlap: np.where(overlap < np.float32(threshold), scores, np.float32(-np.inf))


def descending(scores: Array) -> Integers:
    """The order from the highest score to the lowest; equal scores stay in order."""
    return np.argsort(-scores, kind="stable")


def axis_aligned_bbox_transform(op: OperationContext) -> tuple[Array, ...]:
    """Each region's deltas for each class, applied and clipped to the region's image."""
    rois, deltas, images = (
        to_real(op, AxisAlignedBboxTransformInput.ROIS),
        to_real(op, AxisAlignedBboxTransformInput.DELTAS),
        to_real(op, AxisAlignedBboxTransformInput.IMAGE_INFO),
    )
    require_boxes(op, rois)
    by_class = deltas.reshape(len(rois), deltas.shape[1] // BOX, BOX)
    boxes = transform(rois[:, None], by_class, images[op.value(AxisAlignedBboxTransformInput.BATCH_INDEX)][:, None])
    return (from_real(op, boxes.reshape(deltas.shape)),)


def box_with_nms_limit(op: OperationContext) -> tuple[Array, ...]:
    """Suppress image by image and class by class, without class 0: in each from the highest score to the lowest."""
    scores, boxes, images = (
        to_real(op, BoxWithNmsLimitInput.SCORES),
        to_real(op, BoxWithNmsLimitInput.BOXES),
        op.value(BoxWithNmsLimitInput.BATCH_INDEX),
    )
    by_class = (*scores.shape, BOX)
    boxes = boxes.reshape(by_class)
    found = [
        _box_with_nms_limit_of_image(op, rows, boxes, scores)
        for rows in np.split(np.arange(len(images)), np.flatnonzero(np.diff(images)) + 1)
    ]
    rows, classes, final = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return (
        from_real(op, final),
        op.value(BoxWithNmsLimitInput.BOXES).reshape(by_class)[rows, classes],
        classes.astype(np.int32),
        images[rows],
    )


def _box_with_nms_limit_of_image(
    op: OperationContext, rows: Integers, boxes: Floats, scores: Floats
) -> tuple[Integers, Integers, Floats]:
    threshold = np.float32(op.real(BoxWithNmsLimitInput.SCORE_THRESHOLD))
    lower = _lower(op)
    chosen, classes, final = [rows[:0]], [rows[:0]], [np.zeros(0, np.float32)]
    for number in range(1, scores.shape[1]):
        candidates = rows[scores[rows, number] >= threshold]
        indexes, left = suppress(boxes[candidates, number], scores[candidates, number], lower)
        chosen.append(candidates[indexes])
        classes.append(np.full(len(indexes), number))
        final.append(left)
    result = np.concatenate(chosen), np.concatenate(classes), np.concatenate(final)
    limit = op.integer(BoxWithNmsLimitInput.MAX_DETECTIONS)
    if limit < 0:
        return result
    best = np.sort(descending(result[2])[:limit])  # the best of all classes, sorted by class again
    return result[0][best], result[1][best], result[2][best]


def _lower(op: OperationContext) -> Lower:
    kernel = NmsKernel(op.integer(BoxWithNmsLimitInput.KERNEL))
    threshold, sigma, floor = (
        np.float32(op.real(index))
        for index in (
            BoxWithNmsLimitInput.IOU_THRESHOLD,
            BoxWithNmsLimitInput.SIGMA,
            BoxWithNmsLimitInput.NMS_SCORE_THRESHOLD,
        )
    )
    if kernel == NmsKernel.HARD:
        return hard(float(threshold))

    def soft(scores: Floats, overlap: Floats) -> Floats:
        if kernel == NmsKernel.LINEAR:
            factors = np.where(overlap < threshold, np.float32(1), 1 - overlap)
        else:
            factors = np.exp(-overlap * overlap / sigma)
        lowered = scores * factors
        return np.where(lowered < floor, np.float32(-np.inf), lowered)

    return soft


def detection_postprocessing(op: OperationContext) -> tuple[Array, ...]:
    """For each image the best detections in descending order; the rest of the outputs is zero."""
    scores, boxes = to_real(op, DetectionPostprocessingInput.SCORES), _decoded(op)
    select = _class_by_class if op.boolean(DetectionPostprocessingInput.REGULAR_NMS) else _best_class_first
    room = (len(scores), op.integer(DetectionPostprocessingInput.MAX_DETECTIONS))
    out_scores, out_boxes = np.zeros(room, np.float32), np.zeros((*room, BOX), np.float32)
    labels, counts = np.zeros(room, np.int32), np.zeros(len(scores), np.int32)
    first_label = 1 if op.boolean(DetectionPostprocessingInput.ADD_BACKGROUND_LABEL) else 0
    for image, (image_scores, image_boxes) in enumerate(zip(scores[..., 1:], boxes, strict=True)):
        anchors, classes = (found[: room[1]] for found in select(op, image_scores, image_boxes))
        count = counts[image] = len(anchors)
        out_scores[image, :count] = image_scores[anchors, classes]
        out_boxes[image, :count] = image_boxes[anchors]
        labels[image, :count] = classes + first_label
    return from_real(op, out_scores), from_real(op, out_boxes, 1), labels, counts


def _decoded(op: OperationContext) -> Floats:
    deltas, anchors = (
        to_real(op, DetectionPostprocessingInput.DELTAS)[..., :BOX],
        to_real(op, DetectionPostprocessingInput.ANCHORS),
    )
    scales = np.array(
        [
            op.real(index)
            for index in range(DetectionPostprocessingInput.SCALE_Y, DetectionPostprocessingInput.SCALE_W + 1)
        ],
        np.float32,
    )
    shifts: Floats = deltas / scales
    size = anchors[:, 2:]
    return from_centre(anchors[:, :2] + shifts[..., :2] * size, np.exp(shifts[..., 2:]) * size)


def _class_by_class(op: OperationContext, scores: Floats, boxes: Floats) -> tuple[Integers, Integers]:
    """Anchors and classes (without the background) that remain after suppression within each class."""
    limit = op.integer(DetectionPostprocessingInput.MAX_DETECTIONS_PER_CLASS)
    found = [_survivors(op, of_class, boxes, limit) for of_class in scores.T]
    anchors = np.concatenate(found)
    classes = np.repeat(np.arange(len(found)), [len(part) for part in found])
    order = descending(scores[anchors, classes])
    return anchors[order], classes[order]


def _best_class_first(op: OperationContext, scores: Floats, boxes: Floats) -> tuple[Integers, Integers]:
    """Anchors that remain after one suppression by their best score, each with its best classes."""
    anchors = _survivors(op, scores.max(axis=1), boxes, op.integer(DetectionPostprocessingInput.MAX_DETECTIONS))
    count = min(op.integer(DetectionPostprocessingInput.MAX_CLASSES_PER_DETECTION), scores.shape[1])
    classes = descending(scores[anchors])[:, :count]
    return np.repeat(anchors, count), classes.reshape(-1)


def _survivors(op: OperationContext, scores: Floats, boxes: Floats, limit: int) -> Integers:
    candidates = np.flatnonzero(scores >= np.float32(op.real(DetectionPostprocessingInput.SCORE_THRESHOLD)))
    indexes, _ = suppress(
        boxes[candidates], scores[candidates], hard(op.real(DetectionPostprocessingInput.IOU_THRESHOLD)), limit
    )
    return candidates[indexes]


def generate_proposals(op: OperationContext) -> tuple[Array, ...]:
    """The proposals image by image, from the highest score to the lowest."""
    channels_first = op.boolean(GenerateProposalsInput.LAYOUT)
    scores = channels_last(op.value(GenerateProposalsInput.SCORES), channels_first)
    deltas = channels_last(to_real(op, GenerateProposalsInput.DELTAS), channels_first)
    images = to_real(op, GenerateProposalsInput.IMAGE_INFO)
    anchors = _placed_anchors(op, *scores.shape[1:3])
    scores, deltas = scores.reshape(len(scores), len(anchors)), deltas.reshape(len(deltas), len(anchors), BOX)
    found = [_generate_proposals_of_image(op, *values, anchors) for values in zip(scores, deltas, images, strict=True)]
    batch_index = np.repeat(np.arange(len(found), dtype=np.int32), [len(indexes) for indexes, _ in found])
    chosen = np.concatenate([np.zeros(0, np.int64), *(indexes for indexes, _ in found)])
    boxes = np.concatenate([np.zeros((0, BOX), np.float32), *(boxes for _, boxes in found)])
    return scores[batch_index, chosen], from_real(op, boxes, 1), batch_index


def _placed_anchors(op: OperationContext, height: int, width: int) -> Floats:
    """The anchors at every place of the feature map, in pixels of the image: [height * width * anchors, 4]."""
    x, y = np.meshgrid(
        np.arange(width, dtype=np.float32) * np.float32(op.real(GenerateProposalsInput.RATIO_WIDTH)),
        np.arange(height, dtype=np.float32) * np.float32(op.real(GenerateProposalsInput.RATIO_HEIGHT)),
    )
    places = np.stack((x, y, x, y), axis=-1)
    return (places[:, :, None] + to_real(op, GenerateProposalsInput.ANCHORS)).reshape(-1, BOX)


def _generate_proposals_of_image(
    op: OperationContext, scores: Array, deltas: Floats, size: Floats, anchors: Floats
) -> tuple[Integers, Floats]:
    before, after = op.integer(GenerateProposalsInput.PRE_NMS_MAX), op.integer(GenerateProposalsInput.POST_NMS_MAX)
    order = descending(scores.astype(np.float32))[: before if before > 0 else None]
    boxes = transform(anchors[order], deltas[order], size)
    extents, centres = boxes[:, 2:] - boxes[:, :2], (boxes[:, :2] + boxes[:, 2:]) / 2
    sensible = (extents >= np.float32(op.real(GenerateProposalsInput.MIN_SIZE))).all(axis=1) & (
        centres < size[::-1]
    ).all(axis=1)
    order, boxes = order[sensible], boxes[sensible]
    chosen, _ = suppress(
        boxes,
        scores[order].astype(np.float32),
        hard(op.real(GenerateProposalsInput.IOU_THRESHOLD)),
        after if after > 0 else UNLIMITED,
    )
    return order[chosen], boxes[chosen]
