"""Detection: boxes are moved, proposed, and suppressed by those with better scores."""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np

from nnhal.operations.boxes import NmsKernel
from tests.operations.rows import (
    LAST,
    Given,
    Literal,
    anchors,
    boxes,
    changed,
    f16,
    f32,
    gives,
    half,
    i32,
    q8a,
    q8as,
    q16a,
    q16s,
    real,
    refuses,
    table,
    takes,
)

_TRANSFORM, _LIMIT = "AXIS_ALIGNED_BBOX_TRANSFORM", "BOX_WITH_NMS_LIMIT"
_DETECTION, _PROPOSALS = "DETECTION_POSTPROCESSING", "GENERATE_PROPOSALS"
_TYPES: dict[str, Any] = {"f16": 3, "f32": 3, "q8a": 3, "q8as": 4}


def _moved(rois: Any, deltas: Any, images: Any) -> list[Literal]:
    return [f32(rois), f32(deltas), i32(images), f32([[100, 50], [20, 30]])]


TRANSFORMED = table(
    takes(_TRANSFORM, [boxes(5, 4), f32[5, 8], i32[5], boxes(2, 2)], boxes(5, 8), **_TYPES),
    takes(_TRANSFORM, [f32[0, 4], f32[5, 8], i32[5], f32[2, 2]], f32[5, 8], level=3),
    *(
        refuses(_TRANSFORM, [rois[5, 4], deltas[5, 8], i32[5], rois[2, 2]], rois[5, 8], "expected")
        for rois, deltas in ((f32, f16), (q16a, f32), (q8a, q8a))
    ),
    refuses(
        _TRANSFORM,
        [q16a.at(0.25)[5, 4], q8a[5, 8], i32[5], q16a.at(0.25)[2, 2]],
        q16a[5, 8],
        r"scale 0.25 .* expected 0.125",
    ),
    *(
        refuses(_TRANSFORM, [f32[rois], f32[5, 8], i32[5], f32[2, 2]], f32[()], "expected equal numbers")
        for rois in ((4, 4), (5, 3))
    ),
    # Centres move by sizes, and sizes grow by exponents.
    gives(
        _TRANSFORM,
        _moved([[10, 20, 14, 30]], [[0, 0, 0, 0, 0.5, -0.1, log(2), log(0.5)]], [0]),
        f32([[10, 20, 14, 30, 10, 21.5, 18, 26.5]]),
        near=1e-5,
    ),
    gives(
        _TRANSFORM,
        [f16([[10, 20, 14, 30]]), f16([[0.5, -0.1, log(2), log(0.5)]]), i32([0]), f16([[100, 50]])],
        f16([[10, 21.5, 18, 26.5]]),
        near=1e-3,
    ),
    # Boxes end at the edge of their own image.
    gives(
        _TRANSFORM,
        _moved([[0, 0, 10, 10]] * 2, [[0, 0, 9, 9]] * 2, [0, 1]),
        f32([[0, 0, 50, 100], [0, 0, 30, 20]]),
    ),
    gives(
        _TRANSFORM,
        [q16a([[80, 160, 112, 240]]), q8a.at(0.05, 128)([[138, 128, 128, 128]]), i32([0]), q16a([[800, 400]])],
        q16a([[96, 160, 128, 240]]),
    ),
    gives(_TRANSFORM, _moved(np.zeros((0, 4)), np.zeros((0, 8)), np.zeros(0)), f32(np.zeros((0, 8)))),
    *(
        refuses(_TRANSFORM, _moved([roi], np.zeros((1, 4)), [image]), f32[()], "expected")
        for roi, image in (([4, 0, 3, 1], 0), ([0, 4, 1, 3], 0), ([0, 0, 1, 1], 2), ([0, 0, 1, 1], -1))
    ),
)

_FIRST, _CLOSE, _FAR = [0, 0, 4, 4], [0, 0, 4, 3], [8, 8, 9, 9]
"""The first two share three quarters of their area."""


def _form(kernel: int = 0, sigma: float = 0.5, classes: int = 3) -> list[Literal]:
    return [f32[0, classes], boxes(0, 12), i32[0], 0.3, -1, kernel, 0.4, sigma, 0.3]


_KEPT: list[Given] = [f32[0], boxes(0, 4), i32[0], i32[0]]


def _limited(
    scores: Any, corners: Any, images: Any, kernel: int = NmsKernel.HARD, most: int = -1, floor: float = 0.3
) -> list[Literal]:
    return [f32(scores), f32(corners), i32(images), 0.3, most, int(kernel), 0.5, 0.5, floor]


def _of_one_class(scores: list[float], corners: list[list[int]], **more: Any) -> list[Literal]:
    """Return inputs with a background whose score and box must not matter."""
    behind = [[0, 0, 9, 9, *box] for box in corners]
    return _limited([[1, score] for score in scores], behind, [0] * len(scores), **more)


def _left(scores: Any, corners: Any, classes: Any, images: Any) -> list[Given]:
    return [f32(scores), f32(np.reshape(corners, (-1, 4))), i32(classes), i32(images)]


LIMITED = table(
    takes(_LIMIT, _form(), _KEPT, **_TYPES),
    refuses(
        _LIMIT,
        [f16[0, 3], f16[0, 12], i32[0], half(0.3), -1, 0, half(0.4), 0.5, half(0.3)],
        [f16[0], f16[0, 4], i32[0], i32[0]],
        r"input 7 \(sigma\) is FLOAT32, expected FLOAT16",
    ),
    *(
        refuses(_LIMIT, form, _KEPT, words)
        for form, words in (
            (_form(kernel=3), "kernel 3"),
            (_form(kernel=2, sigma=0.0), "sigma is 0"),
            (_form(classes=4), "expected equal numbers"),
        )
    ),
    refuses(
        _LIMIT,
        [q8a.at(0.01)[0, 3], q16a[0, 12], *_form()[2:]],
        [q8a.at(0.02)[0], q16a[0, 4], i32[0], i32[0]],
        r"scale 0.02 .* expected 0.01",
    ),
    # A selected box lowers the scores of those that overlap it.
    *(
        gives(
            _LIMIT,
            _of_one_class([0.8, 0.9, 0.4], [_CLOSE, _FIRST, _FAR], kernel=kernel, floor=0.1),
            _left(scores, [_FIRST, _FAR, _CLOSE][: len(scores)], [1] * len(scores), [0] * len(scores)),
            near=1e-6,
        )
        for kernel, scores in (
            (NmsKernel.HARD, [0.9, 0.4]),
            (NmsKernel.LINEAR, [0.9, 0.4, 0.8 * (1 - 0.75)]),
            (NmsKernel.GAUSSIAN, [0.9, 0.4, 0.8 * exp(-(0.75**2) / 0.5)]),
        )
    ),
    # Soft kernels drop boxes whose lowered score is too small.
    gives(
        _LIMIT,
        _of_one_class([0.8, 0.9], [_CLOSE, _FIRST], kernel=NmsKernel.LINEAR, floor=0.21),
        _left([0.9], _FIRST, [1], [0]),
        near=1e-6,
    ),
    # Scores below the threshold do not take part.
    gives(
        _LIMIT,
        _of_one_class([0.29, 0.3, 0.31], [_FIRST, _FAR, [5, 5, 6, 6]]),
        _left([0.31, 0.3], [[5, 5, 6, 6], _FAR], [1, 1], [0, 0]),
        near=1e-6,
    ),
    # The limit holds for all classes of an image together.
    gives(
        _LIMIT,
        _limited([[0, 0.5, 0.7], [0, 0.9, 0.6], [0, 0.4, 0.8]], [_FIRST * 3, _FAR * 3, _FIRST * 3], [2, 2, 5], most=2),
        _left([0.9, 0.7, 0.4, 0.8], [_FAR, _FIRST, _FIRST, _FIRST], [1, 2, 1, 2], [2, 2, 5, 5]),
        near=1e-6,
    ),
    *(gives(_LIMIT, _limited(np.zeros((n, 3)), np.zeros((n, 12)), np.zeros(n)), _left([], [], [], [])) for n in (0, 2)),
    gives(
        _LIMIT,
        [
            q8as.at(0.01)([[0, 80], [0, 90]]),
            q16a([[0, 0, 8, 8, 0, 0, 32, 24], [0, 0, 8, 8, 0, 0, 32, 32]]),
            i32([0, 0]),
            *(0.3, -1, int(NmsKernel.LINEAR), 0.5, 1.0, 0.1),
        ],
        [q8as.at(0.01)([90, 20]), q16a([[0, 0, 32, 32], [0, 0, 32, 24]]), i32([1, 1]), i32([0, 0])],
    ),
)


def _detection(
    classes: int = 3, encoding: int = 4, scale: float = 10, most: tuple[int, int, int] = (3, 1, 1)
) -> list[Literal]:
    scales = [real(scale)] * 4
    return [f32[2, 6, classes], f32[0, 6, encoding], f32[0, 4], *scales, False, *most, 0.0, 0.5, False]


_FOUND: list[Given] = [f32[2, 3], f32[2, 3, 4], i32[2, 3], i32[2]]
_PRIORS = [[2, 2, 4, 4], [2, 2, 4, 3], [20, 20, 2, 2]]
"""The first two overlap by three quarters."""
_SCORES = [[1, 0.9, 0.6], [1, 0.5, 0.8], [1, 0.2, 0.3]]
_DELTAS = np.zeros((1, 3, 5))
_DELTAS[0, :, 4] = 99  # what lies behind the first four is none of the box's
_DELTAS[0, 2, :4] = [10, -5, 5 * np.log(2), 0]
_CORNERS = {0: [0, 0, 4, 4], 1: [0, 0.5, 4, 3.5], 2: [20, 18, 24, 20], None: [0] * 4}
"""The boxes of the priors, and that of none."""


def _detected(
    regular: bool = False, most: tuple[int, int, int] = (4, 1, 4), threshold: float = 0.0, background: bool = False
) -> list[Literal]:
    inputs = [f32([_SCORES]), f32(_DELTAS), f32(_PRIORS), *map(real, (10, 10, 5, 5))]
    return [*inputs, regular, *most, threshold, 0.5, background]


def _detections(found: list[tuple[float, int | None, int]], count: int) -> list[Given]:
    scores, priors, classes = zip(*found, strict=True)
    return [f32([scores]), f32([[_CORNERS[prior] for prior in priors]]), i32([classes]), i32([count])]


_NONE = (0.0, None, 0)

DETECTED = table(
    takes(_DETECTION, changed(_detection(), 1, f32[2, 6, 4]), _FOUND, f16=3, f32=3),
    takes(_DETECTION, _detection(encoding=7), _FOUND, level=3),
    refuses(_DETECTION, [q8a[2, 6, 3], q8a[2, 6, 4], *_detection()[2:]], _FOUND, "TENSOR_QUANT8_ASYMM"),
    *(
        refuses(_DETECTION, form, _FOUND, words)
        for form, words in (
            (_detection(encoding=3), "encoding is 3"),
            (_detection(classes=1), "background is 1"),
            (_detection(scale=0), "scale_y is 0"),
            (_detection(most=(0, 1, 1)), "max_detections is 0"),
            (_detection(most=(3, 0, 1)), "max_classes_per_detection is 0"),
        )
    ),
    # The fast form suppresses by the best class, and gives several classes of a box as far as there is room.
    gives(_DETECTION, _detected(), _detections([(0.9, 0, 0), (0.3, 2, 1), _NONE, _NONE], 2), near=1e-5),
    gives(_DETECTION, _detected(most=(3, 2, 1)), _detections([(0.9, 0, 0), (0.6, 0, 1), (0.3, 2, 1)], 3), near=1e-5),
    # The regular form suppresses in each class, sorts by score, and limits each class and all of them.
    gives(
        _DETECTION,
        _detected(regular=True),
        _detections([(0.9, 0, 0), (0.8, 1, 1), (0.3, 2, 1), (0.2, 2, 0)], 4),
        near=1e-5,
    ),
    gives(
        _DETECTION,
        _detected(regular=True, most=(4, 1, 1)),
        _detections([(0.9, 0, 0), (0.8, 1, 1), _NONE, _NONE], 2),
        near=1e-5,
    ),
    gives(_DETECTION, _detected(regular=True, most=(1, 1, 4)), _detections([(0.9, 0, 0)], 1), near=1e-5),
    # Labels count the background if asked.
    gives(_DETECTION, _detected(background=True), _detections([(0.9, 0, 1), (0.3, 2, 2), _NONE, _NONE], 2), near=1e-5),
    gives(_DETECTION, _detected(regular=True, threshold=0.95), _detections([_NONE] * 4, 0)),
)


def _proposals(count: int = 2, ratio: float = 4) -> list[Literal]:
    tensors = [f32[1, 3, 5, 2], f32[0, 3, 5, 8], anchors(count, 4), boxes(1, 2)]
    return [*tensors, real(ratio), real(ratio), -1, -1, 0.3, 1.0, False]


_PROPOSED: list[Given] = [f32[0], boxes(0, 4), i32[0]]
_PLACES = np.array([[0.5, 0.6], [0.9, 0.8], [0.7, 0.1]]).reshape(1, 1, 3, 2)
"""Scores of two anchors, which overlap by three quarters, at three places that are four pixels apart."""
_STILL, _SHIFTED = np.zeros((1, 1, 3, 8)), np.zeros((1, 1, 3, 8))
_SHIFTED[0, 0, 2, [0, 4]] = -0.25


def _proposing(
    scores: Any, deltas: Any, images: Any = ((4, 12),), most: tuple[int, int] = (-1, -1), smallest: float = 0
) -> list[Literal]:
    corners = f32([[0, 0, 4, 4], [0, 0, 4, 3]])
    return [f32(scores), f32(deltas), corners, f32(images), 4.0, 4.0, *most, 0.5, real(smallest), LAST]


_BEST = [[4, 0, 8, 4], [8, 0, 12, 4], [0, 0, 4, 3]]

PROPOSED = table(
    takes(_PROPOSALS, _proposals(), _PROPOSED, **_TYPES),
    refuses(
        _PROPOSALS,
        [q8a[1, 3, 5, 2], q8a[1, 3, 5, 8], q16a[2, 4], q16a[1, 2], *_proposals()[4:]],
        [q8a[0], q16a[0, 4], i32[0]],
        r"input 2 \(anchors\) is TENSOR_QUANT16_ASYMM, expected TENSOR_QUANT16_SYMM",
    ),
    *(
        refuses(_PROPOSALS, form, _PROPOSED, "expected")
        for form in (_proposals(count=3), changed(_proposals(), 10, True), _proposals(ratio=0))
    ),
    # The best anchor of each place is left.
    gives(
        _PROPOSALS,
        _proposing(_PLACES, _SHIFTED),
        [f32([0.9, 0.7, 0.6]), f32([[4, 0, 8, 4], [7, 0, 11, 4], [0, 0, 4, 3]]), i32([0, 0, 0])],
        near=1e-6,
        images=2,
    ),
    *(
        gives(
            _PROPOSALS,
            _proposing(_PLACES, _STILL, most=most),
            [f32([0.9, 0.7, 0.6][:n]), f32(_BEST[:n]), i32([0] * n)],
            near=1e-6,
            images=2,
        )
        for most, n in (((2, -1), 1), ((4, 0), 3), ((0, 2), 2))
    ),
    # Small boxes and those centred outside their image are left out.
    gives(
        _PROPOSALS,
        _proposing(_PLACES.repeat(2, 0), _STILL.repeat(2, 0), images=[[4, 12], [4, 5]], smallest=3.5),
        [
            f32([0.9, 0.7, 0.5, 0.5]),
            f32([[4, 0, 8, 4], [8, 0, 12, 4], [0, 0, 4, 4], [0, 0, 4, 4]]),
            i32([0, 0, 0, 1]),
        ],
        near=1e-6,
        images=2,
    ),
    gives(
        _PROPOSALS,
        _proposing(_PLACES, _STILL, smallest=5),
        [f32([]), f32(np.zeros((0, 4))), i32([])],
        images=2,
    ),
    gives(
        _PROPOSALS,
        [
            q8as.at(0.01, -3)([[[[50], [90]]]]),
            q8as.at(0.125)([[[[0, 0, 0, 0], [2, 0, 0, 0]]]]),
            q16s([[-16, 0, 16, 32]]),
            q16a([[32, 96]]),
            *(4.0, 4.0, -1, -1, 0.5, 0.0, False),
        ],
        [q8as.at(0.01, -3)([90, 50]), q16a([[24, 0, 56, 32], [0, 0, 16, 32]]), i32([0, 0])],
    ),
)

ROWS = [*TRANSFORMED, *LIMITED, *DETECTED, *PROPOSED]
