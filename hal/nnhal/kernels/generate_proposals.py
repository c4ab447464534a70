"""GENERATE_PROPOSALS."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._boxes import UNLIMITED, descending, hard, suppress, transform
from nnhal.kernels._quantization import from_real, to_real
from nnhal.kernels._regions import channels_last
from nnhal.kernels._types import Array, Floats, Integers
from nnhal.operations import OperationContext
from nnhal.operations.boxes import BOX, GenerateProposalsInput


def generate_proposals(op: OperationContext) -> tuple[Array, ...]:
    """The proposals image by image, from the highest score to the lowest."""
    channels_first = op.boolean(GenerateProposalsInput.LAYOUT)
    scores = channels_last(op.value(GenerateProposalsInput.SCORES), channels_first)
    deltas = channels_last(to_real(op, GenerateProposalsInput.DELTAS), channels_first)
    images = to_real(op, GenerateProposalsInput.IMAGE_INFO)
    anchors = _placed_anchors(op, *scores.shape[1:3])
    scores, deltas = scores.reshape(len(scores), len(anchors)), deltas.reshape(len(deltas), len(anchors), BOX)
    found = [_of_image(op, *values, anchors) for values in zip(scores, deltas, images, strict=True)]
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


def _of_image(
    op: OperationContext, scores: Array, deltas: Floats, size: Floats, anchors: Floats
) -> tuple[Integers, Floats]:
    """The anchors of one image that remain, and their boxes."""
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
