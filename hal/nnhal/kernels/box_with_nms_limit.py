"""BOX_WITH_NMS_LIMIT."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._boxes import Lower, descending, hard, suppress
from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._types import Array, Floats, Integers
from nnhal.operations import OperationContext
from nnhal.operations.boxes import BOX, BoxWithNmsLimitInput, NmsKernel


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
        _of_image(op, rows, boxes, scores)
        for rows in np.split(np.arange(len(images)), np.flatnonzero(np.diff(images)) + 1)
    ]
    rows, classes, final = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return (
        from_real(op, final),
        op.value(BoxWithNmsLimitInput.BOXES).reshape(by_class)[rows, classes],
        classes.astype(np.int32),
        images[rows],
    )


def _of_image(op: OperationContext, rows: Integers, boxes: Floats, scores: Floats) -> tuple[Integers, Integers, Floats]:
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
