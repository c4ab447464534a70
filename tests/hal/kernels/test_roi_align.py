from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, FLOAT32, I32, Q8AS, Q16A, scalar_float
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import boolean, integers, output, scalar, tensor

CODE = OperationType.ROI_ALIGN


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
        CODE,
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
    """Sample by sample, for one feature map [height, width]."""
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
def test_regions_name_their_image_in_either_layout(code: OperandType) -> None:
    features = np.arange(2 * 4 * 4 * 3).reshape(2, 4, 4, 3) / 8
    rois, images = [[0, 0, 2, 2], [1, 1, 3, 3]], [1, 0]
    last = aligned(features, rois, images, code=code)
    first = aligned(features.transpose(0, 3, 1, 2), rois, images, channels_first=True, code=code)
    np.testing.assert_array_equal(first.transpose(0, 2, 3, 1), last)
    np.testing.assert_array_equal(last[0], aligned(features[1:], rois[:1], [0], code=code)[0])


def test_quantised_features_and_regions() -> None:
    (result,) = compute(
        CODE,
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


def test_no_regions_give_no_feature_maps() -> None:
    assert aligned(np.ones((1, 4, 4, 3)), np.zeros((0, 4)), np.zeros(0)).shape == (0, 2, 2, 3)


@pytest.mark.parametrize(
    ("roi", "image"), [([2, 0, 1, 1], 0), ([0, 0, 1, 1], 1), ([0, 0, np.inf, 1], 0), ([np.nan, 0, 1, 1], 0)]
)
def test_malformed_regions_fail(roi: list[float], image: int) -> None:
    with pytest.raises(HalError, match="expected"):
        aligned(np.ones((1, 4, 4, 3)), [roi], [image])


def test_regions_without_bounds_are_not_sampled() -> None:
    with pytest.raises(HalError, match="samples"):
        aligned(np.ones((1, 4, 4, 3)), [[0, 0, 2e9, 1]], [0])
