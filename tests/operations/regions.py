"""Regions of images become feature maps of one size; heat maps become keypoints."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from nnhal.arrays import Array
from tests.operations.rows import (
    LAST,
    Literal,
    boxes,
    f16,
    f32,
    gives,
    i32,
    q8a,
    q8as,
    q16a,
    real,
    refuses,
    table,
    takes,
    waits,
)

_ALIGN, _POOLING, _KEYPOINT = "ROI_ALIGN", "ROI_POOLING", "HEATMAP_MAX_KEYPOINT"
_TYPES: dict[str, Any] = {"f16": 3, "f32": 3, "q8a": 3, "q8as": 4}
Pair = tuple[float, float]


def _sampled(features: Array, roi: Array, size: tuple[int, int], samples: tuple[int, int]) -> Array:
    """Return the mean of each cell's samples."""
    height, width = features.shape
    extent = [max(roi[3] - roi[1], 1), max(roi[2] - roi[0], 1)]
    counts = [s or ceil(e / n) for s, e, n in zip(samples, extent, size, strict=True)]
    result = np.zeros(size)
    for i, j in np.ndindex(size):
        for k, m in np.ndindex(*counts):
            y = roi[1] + (i + (k + 0.5) / counts[0]) * extent[0] / size[0]
            x = roi[0] + (j + (m + 0.5) / counts[1]) * extent[1] / size[1]
            if not (-1 <= y <= height and -1 <= x <= width):
                continue
            y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
            top, left = int(y), int(x)
            bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
            upper = features[top, left] * (1 - x + left) + features[top, right] * (x - left)
            lower = features[bottom, left] * (1 - x + left) + features[bottom, right] * (x - left)
            result[i, j] += (upper * (1 - y + top) + lower * (y - top)) / (counts[0] * counts[1])
    return result


def _aligned(
    features: Any, rois: Any, images: Any, size: Pair = (2, 2), ratios: Pair = (1, 1), samples: Pair = (0, 0)
) -> list[Literal]:
    return [f32(features), f32(rois), i32(images), *map(int, size), *map(real, ratios), *map(int, samples), LAST]


def _of_form(regions: int = 7, size: Pair = (2, 3), ratio: float = 4, samples: int = 0) -> list[Literal]:
    tensors = [f32[1, 8, 9, 5], boxes(regions, 4), i32[7]]
    return [*tensors, *map(int, size), real(ratio), real(ratio), samples, samples, LAST]


_FEATURES = np.random.default_rng(3).normal(size=(5, 7))
_ROWS, _COLUMNS = np.mgrid[:8, :8]
_EIGHTHS = np.arange(2 * 4 * 4 * 3).reshape(2, 4, 4, 3) / 8
_ROIS = [[0, 0, 2, 2], [1, 1, 3, 3]]

ALIGNED = table(
    takes(_ALIGN, _of_form(), f32[7, 2, 3, 5], **_TYPES, out=0.2),
    takes(_ALIGN, _of_form(regions=0), f32[7, 2, 3, 5], level=3),
    waits(_ALIGN, [f32[1, 8, 9, 5], f32[()], *_of_form()[2:]], f32[()]),
    *(
        refuses(_ALIGN, form, f32[()], "expected")
        for form in (_of_form(regions=6), _of_form(size=(0, 3)), _of_form(ratio=0), _of_form(samples=-1))
    ),
    *(
        gives(
            _ALIGN,
            _aligned(_FEATURES[None, ..., None], [roi], [0], (3, 2), (1, 1), samples),
            f32(_sampled(_FEATURES, np.array(roi), (3, 2), samples)[None, ..., None]),
            near=1e-5,
        )
        for samples in ((0, 0), (2, 3), (4, 0))
        for roi in ([0, 0, 7, 5], [1.3, 2.1, 4.2, 2.6], [3, 3, 3, 3], [5, 4, 9, 7], [-3, -2, 2, 1])
    ),
    # A linear feature map has the value at each cell's centre.
    gives(
        _ALIGN,
        _aligned((10 * _ROWS + _COLUMNS)[None, ..., None], [[2, 4, 10, 12]], [0], ratios=(4, 2)),
        f32(np.reshape([15 + 2, 15 + 4, 25 + 2, 25 + 4], (1, 2, 2, 1))),
        near=1e-6,
    ),
    # Regions name their image.
    gives(
        _ALIGN,
        _aligned(_EIGHTHS, _ROIS, [1, 0]),
        f32(
            [
                np.stack([_sampled(_EIGHTHS[image, ..., c], np.array(roi), (2, 2), (0, 0)) for c in range(3)], -1)
                for roi, image in zip(_ROIS, [1, 0], strict=True)
            ]
        ),
        near=1e-6,
    ),
    # 7.5, three quarters of the way from the first cell to the last.
    gives(
        _ALIGN,
        [
            q8as.at(0.5, -10)([[[[-40], [-20]], [[0], [20]]]]),
            q16a([[0, 0, 16, 16]]),
            i32([0]),
            *(1, 1, 1.0, 1.0, 2, 2),
            LAST,
        ],
        q8as.at(0.25, 4)([[[[4 + 30]]]]),
    ),
    gives(_ALIGN, _aligned(np.ones((1, 4, 4, 3)), np.zeros((0, 4)), np.zeros(0)), f32(np.zeros((0, 2, 2, 3)))),
    *(
        refuses(_ALIGN, _aligned(np.ones((1, 4, 4, 3)), [roi], [image]), f32[()], words)
        for roi, image, words in (
            ([2, 0, 1, 1], 0, "expected"),
            ([0, 0, 1, 1], 1, "expected"),
            ([0, 0, np.inf, 1], 0, "expected"),
            ([np.nan, 0, 1, 1], 0, "expected"),
            ([0, 0, 2e9, 1], 0, "samples"),
        )
    ),
)


def _pooled(features: Any, rois: Any, images: Any, size: tuple[int, int] = (2, 2), ratio: float = 1) -> list[Literal]:
    return [f32(features), f32(rois), i32(images), *size, real(ratio), real(ratio), LAST]


_DRAWN = np.random.default_rng(5).integers(-9, 9, (2, 4, 4, 3))
_MAXIMA = np.array(
    [
        [[_DRAWN[image, y : y + 2, x : x + 2].max((0, 1)) for x in (left, left + 1)] for y in (left, left + 1)]
        for image, left in ((1, 0), (0, 1))
    ]
)
"""Of ``_ROIS``, whose corners belong to them, in parts of two by two that overlap."""

POOLED = table(
    takes(_POOLING, [f32[1, 8, 9, 5], boxes(7, 4), i32[0], 2, 3, 4.0, 2.0, LAST], f32[7, 2, 3, 5], **_TYPES),
    refuses(
        _POOLING,
        [q8a.at(0.1)[1, 8, 9, 5], q16a[7, 4], i32[0], 2, 3, 4.0, 2.0, LAST],
        q8a.at(0.2)[()],
        r"scale 0.2 .* expected 0.1",
    ),
    # Corners are rounded and belong to the region: columns 1 to 2, rows 2 to 5.
    gives(
        _POOLING,
        _pooled(np.arange(25).reshape(1, 5, 5, 1), [[1, 4.4, 4.9, 9.5]], [0], ratio=2),
        f32(np.reshape([16, 17, 21, 22], (1, 2, 2, 1))),
    ),
    # Parts that do not divide evenly overlap.
    gives(
        _POOLING,
        _pooled(-np.arange(5.0).reshape(1, 1, 5, 1), [[0, 0, 4, 0]], [0], size=(1, 2)),
        f32(np.reshape([0, -2], (1, 1, 2, 1))),
    ),
    # Parts outside the feature map are zero.
    gives(
        _POOLING,
        _pooled(np.full((1, 3, 3, 1), -5), [[2, 2, 5, 5], [3, 3, 3, 3]], [0, 0]),
        f32(np.reshape([-5, 0, 0, 0, 0, 0, 0, 0], (2, 2, 2, 1))),
    ),
    gives(
        _POOLING,
        [
            q8a.at(0.5, 128)([[[[10], [200]]]]),
            q16a([[0, 0, 8, 0], [16, 0, 16, 0]]),
            i32([0, 0]),
            *(1, 1, 1.0, 1.0),
            LAST,
        ],
        q8a.at(0.5, 128)(np.reshape([200, 128], (2, 1, 1, 1))),
    ),
    gives(_POOLING, _pooled(_DRAWN, _ROIS, [1, 0]), f32(_MAXIMA)),
    gives(_POOLING, _pooled(np.ones((1, 4, 4, 3)), np.zeros((0, 4)), np.zeros(0)), f32(np.zeros((0, 2, 2, 3)))),
    *(
        refuses(_POOLING, _pooled(np.ones((1, 4, 4, 3)), [roi], [image]), f32[()], "expected")
        for roi, image in (([0, 2, 1, 1], 0), ([0, 0, 1, 1], 1), ([0, 0, 1e30, 1], 0))
    ),
)


def _paraboloid(x: float, y: float) -> Array:
    """Return a surface that is highest at a place between the cells, where it is 5."""
    rows, columns = np.mgrid[:6, :6]
    surface: Array = 5 - 0.3 * (columns - x) ** 2 - 0.5 * (rows - y) ** 2 + 0.1 * (columns - x) * (rows - y)
    return surface


def _located(heatmap: Any, box: tuple[int, ...]) -> list[Literal]:
    return [f32(np.asarray(heatmap)[None, ..., None]), f32([box]), LAST]


_CORNER = np.zeros((4, 4))
_CORNER[0, 3] = 1
_PEAKS = [(1, 2), (4, 3), (2.5, 2.5)]

KEYPOINTS = table(
    takes(_KEYPOINT, [f32[6, 4, 4, 17], boxes(6, 4), LAST], [f32[6, 17], boxes(6, 17, 2)], **_TYPES, out=0.5),
    takes(_KEYPOINT, [f32[0, 4, 4, 17], f32[6, 4], LAST], [f32[6, 17], f32[6, 17, 2]], level=3),
    takes(_KEYPOINT, [f32[6, 0, 0, 17], f32[6, 4], LAST], [f32[6, 17], f32[6, 17, 2]], level=3),
    takes(_KEYPOINT, [f32[6, 4, 0, 17], f32[6, 4], LAST], [f32[6, 17], f32[6, 17, 2]], level=3),
    *(
        refuses(_KEYPOINT, [f32[heatmaps], f32[6, 4], LAST], [f32[()], f32[()]], "expected")
        for heatmaps in ((6, 4, 5, 17), (6, 1, 1, 17), (5, 4, 4, 17))
    ),
    # The maximum of a quadratic surface is found between the cells.
    gives(_KEYPOINT, _located(_paraboloid(2.3, 3.4), (0, 0, 60, 120)), [f32([[5]]), f32([[[28, 78]]])], near=2e-3),
    gives(
        _KEYPOINT,
        [f16(_paraboloid(2.3, 3.4)[None, ..., None]), f16([[0, 0, 60, 120]]), LAST],
        [f16([[5]]), f16([[[28, 78]]])],
        near=2e-3,
    ),
    # Cells beyond the edge mirror those within.
    gives(_KEYPOINT, _located(_CORNER, (10, 10, 14, 14)), [f32([[1]]), f32([[[13.5, 10.5]]])]),
    gives(_KEYPOINT, _located(np.ones((4, 4)), (0, 0, 4, 4)), [f32([[1]]), f32([[[0.5, 0.5]]])]),
    gives(
        _KEYPOINT,
        [
            f32(np.stack([np.stack([_paraboloid(*peak) for peak in _PEAKS], -1)] * 2)),
            f32([[0, 0, 6, 6], [100, 100, 106, 106]]),
            LAST,
        ],
        [f32([[5, 5, 5]] * 2), f32([np.array(_PEAKS) + 0.5, np.array(_PEAKS) + 100.5])],
        near=1e-5,
    ),
    gives(
        _KEYPOINT,
        [
            q8a.at(0.05)(np.round(_paraboloid(2, 3) * 20).clip(0)[None, ..., None]),
            q16a([[80, 80, 128, 128]]),
            LAST,
        ],
        [q8a.at(0.5, 3)([[13]]), q16a([[[100, 108]]])],
    ),
    gives(
        _KEYPOINT,
        [f32(np.zeros((0, 4, 4, 3))), f32(np.zeros((0, 4))), LAST],
        [f32(np.zeros((0, 3))), f32(np.zeros((0, 3, 2)))],
    ),
    refuses(_KEYPOINT, _located(np.ones((4, 4)), (4, 0, 3, 1)), [f32[()], f32[()]], "x1 <= x2"),
)

ROWS = [*ALIGNED, *POOLED, *KEYPOINTS]
