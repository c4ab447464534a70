from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._window import SAME
from nnhal.types import OperandType, OperationType
from tests.support.convolution import convolution
from tests.support.kernels import compute
from tests.support.operations import boolean, integers, output, per_channel, tensor
from tests.support.rounding import assert_sums_agree

F32 = OperandType.TENSOR_FLOAT32
F16 = OperandType.TENSOR_FLOAT16
I32 = OperandType.TENSOR_INT32
Q8A = OperandType.TENSOR_QUANT8_ASYMM
Q8AS = OperandType.TENSOR_QUANT8_ASYMM_SIGNED
RNG = np.random.default_rng(3)


def reals(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("code", [F32, F16])
@pytest.mark.parametrize("channels_first", [False, True])
def test_every_window_sums_over_all_channels(code: OperandType, channels_first: bool) -> None:
    images, filters, bias = reals(2, 7, 6, 3), reals(4, 3, 2, 3), reals(4)
    window = (1, 2), ((2, 1), (1, 0)), (2, 3)
    explicit = integers(1, 0, 2, 1, 2, 1, 0)  # left, right, top, bottom, stride width, stride height, no activation
    expected = convolution(images, filters, *window) + bias
    given = np.moveaxis(images, 3, 1) if channels_first else images
    (result,) = compute(
        OperationType.CONV_2D,
        [*(tensor(code, v) for v in (given, filters, bias)), *explicit, boolean(channels_first), *integers(3, 2)],
        output(code),
    )
    found = np.moveaxis(result, 1, 3) if channels_first else result
    if code == F16:
        np.testing.assert_allclose(found, expected, 2e-2, 2e-2)
    else:
        magnitudes = convolution(np.abs(images), np.abs(filters), *window) + np.abs(bias)
        assert_sums_agree(found, expected, filters[0].size + 1, magnitudes)


@pytest.mark.parametrize(("code", "low"), [(Q8A, 0), (Q8AS, -128)])
def test_quantised_sums_are_exact(code: OperandType, low: int) -> None:
    images, filters = RNG.integers(low, low + 256, (1, 5, 5, 8)), RNG.integers(low, low + 256, (6, 3, 3, 8))
    bias = RNG.integers(-500, 500, 6)
    sums = convolution(images - (low + 3), filters - (low + 5), (1, 1), ((1, 1), (1, 1))) + bias
    (result,) = compute(
        OperationType.CONV_2D,
        [
            tensor(code, images, 0.5, low + 3),
            tensor(code, filters, 0.25, low + 5),
            tensor(I32, bias, 0.125),
            *integers(SAME, 1, 1, 0),
        ],
        output(code, (), 256.0, low + 100),
    )
    steps = sums * (0.125 / 256)
    clear = np.abs(np.abs(steps) % 1 - 0.5) > 2.0**-9  # what is nearly a half may go either way: it is rounded twice
    expected = np.clip(np.floor(steps + 0.5) + low + 100, low, low + 255)
    np.testing.assert_array_equal(result[clear], expected[clear])
    assert clear.mean() > 0.9


def test_every_channel_of_a_filter_may_have_its_own_scale() -> None:
    filters = np.array([1, -2, 3], np.int8).reshape(3, 1, 1, 1)
    (result,) = compute(
        OperationType.CONV_2D,
        [
            tensor(Q8A, [[[[14]]]], 0.5, 10),
            per_channel(filters, [1.0, 2.0, 0.5], 0),
            tensor(I32, [2, 0, 0]),
            *integers(SAME, 1, 1, 0),
        ],
        output(Q8A, (), 1.0, 20),
    )
    assert result.tolist() == [[[[23, 12, 23]]]]


def test_the_activation_comes_last() -> None:
    inputs = [tensor(F32, [[[[-3.0], [9.0]]]]), tensor(F32, [[[[1.0]]]]), tensor(F32, [1.0])]
    (result,) = compute(OperationType.CONV_2D, [*inputs, *integers(SAME, 1, 1, 3)], output(F32))
    assert result.ravel().tolist() == [0.0, 6.0]


def test_no_images_give_no_images() -> None:
    inputs = [tensor(F32, np.zeros((0, 4, 4, 2))), tensor(F32, np.zeros((3, 2, 2, 2))), tensor(F32, np.zeros(3))]
    (result,) = compute(OperationType.CONV_2D, [*inputs, *integers(SAME, 2, 2, 0)], output(F32))
    assert result.shape == (0, 2, 2, 3)
