from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, FLOAT32, I32, Q8A, Q8AS, Q16A, scalar_float
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import boolean, integers, output, scalar, tensor

ROI_ALIGN_CODE = OperationType.ROI_ALIGN


def aligned(
    features: Any,
    rois: Any,
    batch_index: Any,
    *,
    size: tuple[int, int] = (2, 2),
    ratios: tuple[float, float] = (1, 1),
    samples: tuple[int, int] = (0, 0),
    channels_first: bool = False,
    code: OperandType = F32,
) -> Array:
    (result,) = compute(
        ROI_ALIGN_CODE,
        [
            tensor(code, features),
            tensor(code, rois),
            tensor(I32, batch_index),
            *integers(*size),
            *(scalar(scalar_float(code), ratio) for ratio in ratios),
            *integers(*samples),
            boolean(channels_first),
        ],
        output(code),
    )
    return result


def sampled(features: Array, roi: Array, size: tuple[int, int], samples: tuple[int, int]) -> Array:
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


@pytest.mark.parametrize("samples", [(0, 0), (2, 3), (4, 0)])
@pytest.mark.parametrize("roi", [[0, 0, 7, 5], [1.3, 2.1, 4.2, 2.6], [3, 3, 3, 3], [5, 4, 9, 7], [-3, -2, 2, 1]])
def test_every_cell_is_the_mean_of_its_samples(roi: list[float], samples: tuple[int, int]) -> None:
    features = np.random.default_rng(3).normal(size=(5, 7))
    result = aligned(features[None, ..., None], [roi], [0], size=(3, 2), samples=samples)
    np.testing.assert_allclose(result[0, ..., 0], sampled(features, np.array(roi), (3, 2), samples), atol=1e-5)


def test_a_linear_feature_map_has_the_value_at_each_cells_centre() -> None:
    rows, columns = np.mgrid[:8, :8]
    result = aligned((10 * rows + columns)[None, ..., None], [[2, 4, 10, 12]], [0], ratios=(4, 2))
    np.testing.assert_allclose(result[0, ..., 0], [[15 + 2, 15 + 4], [25 + 2, 25 + 4]], rtol=1e-6)


@pytest.mark.parametrize("code", [F16, F32])
def test_roi_align_regions_name_their_image_in_either_layout(code: OperandType) -> None:
    features = np.arange(2 * 4 * 4 * 3).reshape(2, 4, 4, 3) / 8
    rois, images = [[0, 0, 2, 2], [1, 1, 3, 3]], [1, 0]
    last = aligned(features, rois, images, code=code)
    first = aligned(features.transpose(0, 3, 1, 2), rois, images, channels_first=True, code=code)
    np.testing.assert_array_equal(first.transpose(0, 2, 3, 1), last)
    np.testing.assert_array_equal(last[0], aligned(features[1:], rois[:1], [0], code=code)[0])


def test_quantised_features_and_regions() -> None:
    (result,) = compute(
        ROI_ALIGN_CODE,
        [
            tensor(Q8AS, [[[[-40], [-20]], [[0], [20]]]], 0.5, -10),
            tensor(Q16A, [[0, 0, 16, 16]], 0.125),
            tensor(I32, [0]),
            *integers(1, 1),
            *(scalar(FLOAT32, 1) for _ in range(2)),
            *integers(2, 2),
            boolean(False),
        ],
        output(Q8AS, scale=0.25, zero_point=4),
    )
    assert result.tolist() == [[[[4 + 30]]]]  # 7.5, three quarters of the way from the first cell to the last


def test_roi_align_no_regions_give_no_feature_maps() -> None:
    assert aligned(np.ones((1, 4, 4, 3)), np.zeros((0, 4)), np.zeros(0)).shape == (0, 2, 2, 3)


@pytest.mark.parametrize(
    ("roi", "image"), [([2, 0, 1, 1], 0), ([0, 0, 1, 1], 1), ([0, 0, np.inf, 1], 0), ([np.nan, 0, 1, 1], 0)]
)
def test_roi_align_malformed_regions_fail(roi: list[float], image: int) -> None:
    with pytest.raises(HalError, match="expected"):
        aligned(np.ones((1, 4, 4, 3)), [roi], [image])


def test_regions_without_bounds_are_not_sampled() -> None:
    with pytest.raises(HalError, match="samples"):
        aligned(np.ones((1, 4, 4, 3)), [[0, 0, 2e9, 1]], [0])


ROI_POOLING_CODE = OperationType.ROI_POOLING


def pooled(
    features: Any,
    rois: Any,
    batch_index: Any,
    *,
    size: tuple[int, int] = (2, 2),
    ratios: tuple[float, float] = (1, 1),
    channels_first: bool = False,
    code: OperandType = F32,
) -> Array:
    (result,) = compute(
        ROI_POOLING_CODE,
        [
            tensor(code, features),
            tensor(code, rois),
            tensor(I32, batch_index),
            *integers(*size),
            *(scalar(scalar_float(code), ratio) for ratio in ratios),
            boolean(channels_first),
        ],
        output(code),
    )
    return result


def test_corners_are_rounded_and_belong_to_the_region() -> None:
    features = np.arange(25).reshape(1, 5, 5, 1)
    result = pooled(features, [[1, 4.4, 4.9, 9.5]], [0], ratios=(2, 2))  # columns 1 to 2, rows 2 to 5
    assert result[0, ..., 0].tolist() == [[16, 17], [21, 22]]


def test_parts_that_do_not_divide_evenly_overlap() -> None:
    features = -np.arange(5.0).reshape(1, 1, 5, 1)
    result = pooled(features, [[0, 0, 4, 0]], [0], size=(1, 2))
    assert result.reshape(-1).tolist() == [0, -2]


def test_parts_outside_the_feature_map_are_zero() -> None:
    features = np.full((1, 3, 3, 1), -5)
    result = pooled(features, [[2, 2, 5, 5], [3, 3, 3, 3]], [0, 0])
    assert result[0, ..., 0].tolist() == [[-5, 0], [0, 0]]
    assert not result[1].any()


def test_quantised_zero_is_the_zero_point() -> None:
    (result,) = compute(
        ROI_POOLING_CODE,
        [
            tensor(Q8A, [[[[10], [200]]]], 0.5, 128),
            tensor(Q16A, [[0, 0, 8, 0], [16, 0, 16, 0]], 0.125),
            tensor(I32, [0, 0]),
            *integers(1, 1),
            *(scalar(FLOAT32, 1) for _ in range(2)),
            boolean(False),
        ],
        output(Q8A, scale=0.5, zero_point=128),
    )
    assert result.reshape(-1).tolist() == [200, 128]


@pytest.mark.parametrize("code", [F16, F32])
def test_roi_pooling_regions_name_their_image_in_either_layout(code: OperandType) -> None:
    features = np.random.default_rng(5).integers(-9, 9, (2, 4, 4, 3))
    rois, images = [[0, 0, 2, 2], [1, 1, 3, 3]], [1, 0]
    last = pooled(features, rois, images, code=code)
    first = pooled(features.transpose(0, 3, 1, 2), rois, images, channels_first=True, code=code)
    np.testing.assert_array_equal(first.transpose(0, 2, 3, 1), last)
    np.testing.assert_array_equal(last[0], pooled(features[1:], rois[:1], [0], code=code)[0])


def test_roi_pooling_no_regions_give_no_feature_maps() -> None:
    assert pooled(np.ones((1, 4, 4, 3)), np.zeros((0, 4)), np.zeros(0)).shape == (0, 2, 2, 3)


@pytest.mark.parametrize(("roi", "image"), [([0, 2, 1, 1], 0), ([0, 0, 1, 1], 1), ([0, 0, 1e30, 1], 0)])
def test_roi_pooling_malformed_regions_fail(roi: list[float], image: int) -> None:
    with pytest.raises(HalError, match="expected"):
        pooled(np.ones((1, 4, 4, 3)), [roi], [image])


HEATMAP_MAX_KEYPOINT_CODE = OperationType.HEATMAP_MAX_KEYPOINT


def paraboloid(x: float, y: float, size: int = 6) -> Array:
    """Highest at a place between the cells, where it is 5."""
    rows, columns = np.mgrid[:size, :size]
    surface: Array = 5 - 0.3 * (columns - x) ** 2 - 0.5 * (rows - y) ** 2 + 0.1 * (columns - x) * (rows - y)
    return surface


def located(heatmap: Array, code: OperandType = F32, box: tuple[int, ...] = (0, 0, 60, 120)) -> tuple[Array, Array]:
    inputs = [tensor(code, heatmap[None, ..., None]), tensor(code, [box]), boolean(False)]
    scores, points = compute(HEATMAP_MAX_KEYPOINT_CODE, inputs, output(code), output(code))
    return scores[0, 0], points[0, 0]


@pytest.mark.parametrize("code", [F16, F32])
def test_the_maximum_of_a_quadratic_surface_is_found_between_the_cells(code: OperandType) -> None:
    score, point = located(paraboloid(2.3, 3.4), code)
    np.testing.assert_allclose(score, 5, rtol=2e-3)
    np.testing.assert_allclose(point, [(2.3 + 0.5) * 10, (3.4 + 0.5) * 20], rtol=2e-3)


def test_cells_beyond_the_edge_mirror_those_within() -> None:
    heatmap = np.zeros((4, 4))
    heatmap[0, 3] = 1
    score, point = located(heatmap, box=(10, 10, 14, 14))
    assert score == 1
    assert point.tolist() == [13.5, 10.5]


def test_a_flat_heatmap_is_highest_in_its_first_cell() -> None:
    score, point = located(np.ones((4, 4)), box=(0, 0, 4, 4))
    assert score == 1
    assert point.tolist() == [0.5, 0.5]


def test_the_maximum_stays_near_the_highest_cell() -> None:
    heatmap = np.zeros((5, 5))
    heatmap[2, 1:4] = 0.0, 1.0, 1.0
    heatmap[1, 1:4] = heatmap[3, 1:4] = 0.95, 0.9, 0.9
    _, point = located(heatmap, box=(0, 0, 5, 5))
    assert np.abs(point - 2.5).max() <= 1.5


def test_keypoints_of_all_boxes_in_either_layout() -> None:
    heatmaps = np.stack([[paraboloid(1, 2), paraboloid(4, 3), paraboloid(2.5, 2.5)]] * 2)
    boxes = tensor(F32, [[0, 0, 6, 6], [100, 100, 106, 106]])
    first = compute(HEATMAP_MAX_KEYPOINT_CODE, [tensor(F32, heatmaps), boxes, boolean(True)], output(F32), output(F32))
    last = compute(
        HEATMAP_MAX_KEYPOINT_CODE,
        [tensor(F32, heatmaps.transpose(0, 2, 3, 1)), boxes, boolean(False)],
        output(F32),
        output(F32),
    )
    np.testing.assert_allclose(first[1][1], np.array([[1.5, 2.5], [4.5, 3.5], [3, 3]]) + 100, rtol=1e-5)
    for a, b in zip(first, last, strict=True):
        np.testing.assert_array_equal(a, b)


def test_quantised_scores_and_points() -> None:
    heatmap = np.round(paraboloid(2, 3) * 20).clip(0)[None, ..., None]
    inputs = [tensor(Q8A, heatmap, 0.05), tensor(Q16A, [[80, 80, 128, 128]], 0.125), boolean(False)]
    scores, points = compute(
        HEATMAP_MAX_KEYPOINT_CODE, inputs, output(Q8A, scale=0.5, zero_point=3), output(Q16A, scale=0.125)
    )
    assert scores.tolist() == [[13]]
    assert points.tolist() == [[[100, 108]]]


def test_no_boxes_have_no_keypoints() -> None:
    inputs = [tensor(F32, np.zeros((0, 4, 4, 3))), tensor(F32, np.zeros((0, 4))), boolean(False)]
    scores, points = compute(HEATMAP_MAX_KEYPOINT_CODE, inputs, output(F32), output(F32))
    assert (scores.shape, points.shape) == ((0, 3), (0, 3, 2))


def test_boxes_with_crossed_corners_fail() -> None:
    with pytest.raises(HalError, match="x1 <= x2"):
        located(np.ones((4, 4)), box=(4, 0, 3, 1))
