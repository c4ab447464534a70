from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.operations._types import F16, F32, FLOAT32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import Given, boolean, integers, output, scalar, tensor

RESIZE_NEAREST_NEIGHBOR_CODE = OperationType.RESIZE_NEAREST_NEIGHBOR


def resized_resize_nearest_neighbor(
    values: Any, size: list[Given], *flags: bool, code: OperandType = F32, scale: float = 0.0
) -> Array:
    inputs = [tensor(code, values, scale), *size, *map(boolean, flags)]
    (result,) = compute(RESIZE_NEAREST_NEIGHBOR_CODE, inputs, output(code, scale=scale))
    return result


def row_resize_nearest_neighbor(*values: float) -> Array:
    return np.array(values).reshape(1, 1, -1, 1)


@pytest.mark.parametrize(
    ("flags", "count", "expected"),
    [
        ((False,), 3, [1, 2, 3]),
        ((False,), 8, [1, 1, 2, 2, 3, 3, 4, 4]),
        ((False, True), 3, [1, 3, 4]),
        ((False, True), 1, [1]),
        ((False, False, True), 3, [1, 3, 4]),
        ((False, False, True), 1, [3]),
    ],
)
def test_resize_nearest_neighbor_where_the_pixels_lie(
    flags: tuple[bool, ...], count: int, expected: list[float]
) -> None:
    assert (
        resized_resize_nearest_neighbor(row_resize_nearest_neighbor(1, 2, 3, 4), integers(count, 1), *flags)
        .reshape(-1)
        .tolist()
        == expected
    )


@pytest.mark.parametrize("code", [F16, F32, Q8A, Q8AS])
def test_all_types_by_factors_in_either_layout(code: OperandType) -> None:
    values = np.random.default_rng(1).integers(0, 100, (2, 3, 4, 5))
    factors = [scalar(OperandType.FLOAT16 if code == F16 else FLOAT32, factor) for factor in (1.5, 0.7)]
    scale = 0.5 * (code in (Q8A, Q8AS))
    last = resized_resize_nearest_neighbor(values, factors, False, code=code, scale=scale)
    first = resized_resize_nearest_neighbor(values.transpose(0, 3, 1, 2), factors, True, code=code, scale=scale)
    np.testing.assert_array_equal(last, values[:, [0, 1]][:, :, [0, 0, 1, 2, 2, 3]])
    np.testing.assert_array_equal(first.transpose(0, 2, 3, 1), last)


RESIZE_BILINEAR_CODE = OperationType.RESIZE_BILINEAR


def resized_resize_bilinear(
    values: Any, size: list[Given], *flags: bool, code: OperandType = F32, scale: float = 0.0
) -> Array:
    inputs = [tensor(code, values, scale), *size, *map(boolean, flags)]
    (result,) = compute(RESIZE_BILINEAR_CODE, inputs, output(code, scale=scale))
    return result


def row_resize_bilinear(*values: float) -> Array:
    return np.array(values).reshape(1, 1, -1, 1)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), [0, 2, 4, 6, 6, 6]),
        ((False, True, False), [0, 1.2, 2.4, 3.6, 4.8, 6]),
        ((False, False, True), [0, 0, 2, 4, 6, 6]),
    ],
)
def test_resize_bilinear_where_the_pixels_lie(flags: tuple[bool, ...], expected: list[float]) -> None:
    result = resized_resize_bilinear(row_resize_bilinear(0, 6), integers(6, 1), *flags)
    np.testing.assert_allclose(result.reshape(-1), expected, atol=1e-6)


def test_rows_and_columns_are_interpolated() -> None:
    values = np.array([[1, 2], [5, 10]]).reshape(1, 2, 2, 1)
    result = resized_resize_bilinear(values, integers(4, 2), False)
    np.testing.assert_allclose(result[0, ..., 0], [[1, 1.5, 2, 2], [5, 7.5, 10, 10]])


def test_a_single_pixel_with_aligned_corners_is_the_first() -> None:
    assert resized_resize_bilinear(row_resize_bilinear(3, 7, 8), integers(1, 1), False, True).item() == 3


def test_factors_and_layouts() -> None:
    values = np.random.default_rng(1).normal(size=(2, 3, 4, 5))
    factors = [scalar(FLOAT32, 1.5), scalar(FLOAT32, 0.7)]
    last = resized_resize_bilinear(values, factors, False)
    first = resized_resize_bilinear(values.transpose(0, 3, 1, 2), factors, True)
    assert last.shape == (2, 2, 6, 5)
    np.testing.assert_array_equal(first.transpose(0, 2, 3, 1), last)


@pytest.mark.parametrize(
    ("code", "expected"), [(Q8A, [10, 11, 12, 12]), (Q8AS, [10, 11, 12, 12]), (F16, [10, 11, 12, 12])]
)
def test_all_types(code: OperandType, expected: list[int]) -> None:
    result = resized_resize_bilinear(row_resize_bilinear(10, 12), integers(4, 1), code=code, scale=0.5 * (code != F16))
    assert result.reshape(-1).tolist() == expected


def test_no_images_stay_none() -> None:
    assert resized_resize_bilinear(np.zeros((0, 2, 2, 3)), integers(4, 5)).shape == (0, 5, 4, 3)


def test_images_without_pixels_are_refused() -> None:
    with pytest.raises(HalError, match="expected height, width and channels above 0"):
        resized_resize_bilinear(np.zeros((1, 0, 2, 3)), integers(4, 5))
