"""Boxes: (x1, y1, x2, y2), or y before x throughout, along the last axis of an array."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnhal.kernels._types import Array, Floats, Integers
from nnhal.operations import OperationContext

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
