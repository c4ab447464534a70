"""DETECTION_POSTPROCESSING."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._boxes import descending, from_centre, hard, suppress
from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._types import Array, Floats, Integers
from nnhal.operations import OperationContext
from nnhal.operations.boxes import BOX, DetectionPostprocessingInput


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
