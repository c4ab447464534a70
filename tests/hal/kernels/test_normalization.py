from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._types import F16, F32, Q8A, Q8AS, scalar_float
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import Given, boolean, integers, output, scalar, tensor

L2 = OperationType.L2_NORMALIZATION


@pytest.mark.parametrize("main", [F16, F32])
def test_vectors_of_length_1_along_any_axis(main: OperandType) -> None:
    values = np.array([[3.0, 4.0], [0.0, 0.0]])
    (result,) = compute(L2, [tensor(main, values)], output(main))
    np.testing.assert_allclose(result, [[0.6, 0.8], [0.0, 0.0]], rtol=1e-3)
    (columns,) = compute(L2, [tensor(main, values), *integers(0)], output(main))
    assert columns.tolist() == [[1, 1], [0, 0]]


@pytest.mark.parametrize(("main", "zero"), [(Q8A, 128), (Q8AS, 0)])
def test_quantised_vectors(main: OperandType, zero: int) -> None:
    (result,) = compute(L2, [tensor(main, [[7, 9], [4, 4]], 0.5, 4)], output(main, (), 1 / 128, zero))
    expected = np.round(128 * np.array([[3, 5], [0, 0]]) / np.sqrt(34)) + zero
    np.testing.assert_array_equal(result, expected)


def test_l2_normalization_no_elements_give_none() -> None:
    (result,) = compute(L2, [tensor(F32, np.zeros((2, 0)))], output(F32))
    assert result.shape == (2, 0)


VALUES = np.random.default_rng(1).normal(size=(2, 3, 4, 5))


def expected(values: Array, radius: int) -> Array:
    """Along the last axis, with bias 9, alpha 4 and beta 0.5."""
    result = np.empty_like(values)
    for index in range(values.shape[-1]):
        window = values[..., max(0, index - radius) : index + radius + 1]
        result[..., index] = values[..., index] / (9 + 4 * (window**2).sum(-1)) ** 0.5
    return result


@pytest.mark.parametrize("main", [F16, F32])
@pytest.mark.parametrize("radius", [0, 1, 20])
@pytest.mark.parametrize("axis", [(), (3,), (-3,)])
def test_neighbours_within_the_radius_count(main: OperandType, radius: int, axis: tuple[int, ...]) -> None:
    number = scalar_float(main)
    inputs = [tensor(main, VALUES), *integers(radius), *(scalar(number, v) for v in (9, 4, 0.5)), *integers(*axis)]
    (result,) = compute(OperationType.LOCAL_RESPONSE_NORMALIZATION, inputs, output(main))
    along = axis[0] if axis else -1
    wanted = np.moveaxis(expected(np.moveaxis(VALUES, along, -1), radius), -1, along)
    np.testing.assert_allclose(result, wanted, rtol=1e-5 if main == F32 else 5e-3, atol=1e-4)


def test_local_response_normalization_no_elements_give_none() -> None:
    inputs = [tensor(F32, np.zeros((2, 0))), *integers(2), *(scalar(scalar_float(F32), v) for v in (9, 4, 0.5))]
    (result,) = compute(OperationType.LOCAL_RESPONSE_NORMALIZATION, inputs, output(F32))
    assert result.shape == (2, 0)


def parameters(main: OperandType, channels_first: bool) -> list[Given]:
    return [*(scalar(scalar_float(main), value) for value in (2, 0.5, 1e-3)), boolean(channels_first)]


@pytest.mark.parametrize("main", [F16, F32])
def test_each_channel_of_each_image_on_its_own(main: OperandType) -> None:
    images = np.random.default_rng(2).normal(3, 2, size=(2, 4, 5, 3))
    mean, variance = images.mean((1, 2), keepdims=True), images.var((1, 2), keepdims=True)
    expected = 2 * (images - mean) / np.sqrt(variance + 1e-3) + 0.5
    for channels_first in (False, True):
        given, wanted = (np.moveaxis(a, 3, 1) if channels_first else a for a in (images, expected))
        inputs = [tensor(main, given), *parameters(main, channels_first)]
        (result,) = compute(OperationType.INSTANCE_NORMALIZATION, inputs, output(main))
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5 if main == F32 else 1e-2)


def test_no_images_give_none() -> None:
    inputs = [tensor(F32, np.zeros((0, 2, 2, 1))), *parameters(F32, False)]
    (result,) = compute(OperationType.INSTANCE_NORMALIZATION, inputs, output(F32))
    assert result.shape == (0, 2, 2, 1)
