from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, FLOAT32, I32, Q8A, Q16A, scalar_float
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import boolean, integers, output, scalar, tensor

CODE = OperationType.ROI_POOLING


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
        CODE,
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
        CODE,
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
def test_regions_name_their_image_in_either_layout(code: OperandType) -> None:
    features = np.random.default_rng(5).integers(-9, 9, (2, 4, 4, 3))
    rois, images = [[0, 0, 2, 2], [1, 1, 3, 3]], [1, 0]
    last = pooled(features, rois, images, code=code)
    first = pooled(features.transpose(0, 3, 1, 2), rois, images, channels_first=True, code=code)
    np.testing.assert_array_equal(first.transpose(0, 2, 3, 1), last)
    np.testing.assert_array_equal(last[0], pooled(features[1:], rois[:1], [0], code=code)[0])


def test_no_regions_give_no_feature_maps() -> None:
    assert pooled(np.ones((1, 4, 4, 3)), np.zeros((0, 4)), np.zeros(0)).shape == (0, 2, 2, 3)


@pytest.mark.parametrize(("roi", "image"), [([0, 2, 1, 1], 0), ([0, 0, 1, 1], 1), ([0, 0, 1e30, 1], 0)])
def test_malformed_regions_fail(roi: list[float], image: int) -> None:
    with pytest.raises(HalError, match="expected"):
        pooled(np.ones((1, 4, 4, 3)), [roi], [image])
