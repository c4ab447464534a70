from __future__ import annotations

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.operations._window import SAME, VALID
from nnhal.types import OperandType, OperationType
from tests.support.kernels import compute
from tests.support.operations import boolean, integers, output, per_channel, tensor
from tests.support.rounding import assert_sums_agree

Pair = tuple[int, int]


def convolution(
    images: Array, filters: Array, strides: Pair, paddings: tuple[Pair, Pair], dilations: Pair = (1, 1), groups: int = 1
) -> Array:
    """Convolve images [b, h, w, c] with filters [out, h, w, c / groups]; pairs are (height, width)."""
    padded = np.pad(images.astype(np.float64), ((0, 0), *paddings, (0, 0)))
    channels, rows, columns, depth = filters.shape
    reach = [(size - 1) * dilation + 1 for size, dilation in zip((rows, columns), dilations, strict=True)]
    height, width = ((padded.shape[i + 1] - reach[i]) // strides[i] + 1 for i in (0, 1))
    result = np.zeros((len(images), height, width, channels))
    for y, x, channel in np.ndindex(height, width, channels):
        first = channel // (channels // groups) * depth
        top, left = y * strides[0], x * strides[1]
        seen = padded[
            :, top : top + reach[0] : dilations[0], left : left + reach[1] : dilations[1], first : first + depth
        ]
        result[:, y, x, channel] = (seen * filters[channel]).sum(axis=(1, 2, 3))
    return result


def transposed_convolution(images: Array, filters: Array, strides: Pair, paddings: tuple[Pair, Pair]) -> Array:
    """Convolve images [b, h, w, c] transposed with filters [out, h, w, c]: every element adds its filter."""
    batch, height, width, _ = images.shape
    channels, rows, columns, _ = filters.shape
    canvas = np.zeros((batch, (height - 1) * strides[0] + rows, (width - 1) * strides[1] + columns, channels))
    for b, y, x in np.ndindex(batch, height, width):
        top, left = y * strides[0], x * strides[1]
        canvas[b, top : top + rows, left : left + columns] += np.einsum("i,ohwi->hwo", images[b, y, x], filters)
    (top, bottom), (left, right) = paddings
    return canvas[:, top : canvas.shape[1] - bottom, left : canvas.shape[2] - right]


F32 = OperandType.TENSOR_FLOAT32
F16 = OperandType.TENSOR_FLOAT16
I32 = OperandType.TENSOR_INT32
Q8A = OperandType.TENSOR_QUANT8_ASYMM
Q8AS = OperandType.TENSOR_QUANT8_ASYMM_SIGNED
CONV_2D_RNG = np.random.default_rng(3)


def reals(*shape: int) -> Array:
    return CONV_2D_RNG.standard_normal(shape).astype(np.float32)


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
    images, filters = (
        CONV_2D_RNG.integers(low, low + 256, (1, 5, 5, 8)),
        CONV_2D_RNG.integers(low, low + 256, (6, 3, 3, 8)),
    )
    bias = CONV_2D_RNG.integers(-500, 500, 6)
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


def test_conv_2d_no_images_give_no_images() -> None:
    inputs = [
        tensor(F32, np.zeros((0, 4, 4, 2))),
        tensor(F32, np.zeros((3, 2, 2, 2))),
        tensor(F32, np.zeros(3)),
    ]
    (result,) = compute(OperationType.CONV_2D, [*inputs, *integers(SAME, 2, 2, 0)], output(F32))
    assert result.shape == (0, 2, 2, 3)


@pytest.mark.parametrize("channels_first", [False, True])
@pytest.mark.parametrize("multiplier", [1, 3])
def test_every_channel_has_its_own_filters(multiplier: int, channels_first: bool) -> None:
    rng = np.random.default_rng(multiplier)
    channels = 4 * multiplier
    images, filters = rng.standard_normal((2, 6, 5, 4)), rng.standard_normal((1, 3, 2, channels))
    given = np.moveaxis(images, 3, 1) if channels_first else images
    (result,) = compute(
        OperationType.DEPTHWISE_CONV_2D,
        [
            tensor(F32, given),
            tensor(F32, filters),
            tensor(F32, np.ones(channels)),
            *integers(1, 1, 0, 2, 1, 2, multiplier, 0),
            boolean(channels_first),
            *integers(2, 1),
        ],
        output(F32),
    )
    grouped = filters[0].transpose(2, 0, 1)[..., np.newaxis]
    expected, magnitudes = (
        convolution(values, weights, (2, 1), ((0, 2), (1, 1)), (1, 2), groups=4) + 1
        for values, weights in ((images, grouped), (np.abs(images), np.abs(grouped)))
    )
    found = np.moveaxis(result, 1, 3) if channels_first else result
    assert_sums_agree(found, expected, grouped[0].size + 1, magnitudes)


def test_quantised_channels_may_have_their_own_scales() -> None:
    (result,) = compute(
        OperationType.DEPTHWISE_CONV_2D,
        [
            tensor(Q8AS, [[[[2, -4]]]], 0.5),
            per_channel(np.array([3, 5], np.int8).reshape(1, 1, 1, 2), [1.0, 2.0], 3),
            tensor(OperandType.TENSOR_INT32, [1, -1]),
            *integers(1, 1, 1, 1, 0),
        ],
        output(Q8AS, (), 0.25, 7),
    )
    assert result.ravel().tolist() == [7 + 14, 7 - 84]


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_groups_do_not_see_one_another(groups: int) -> None:
    rng = np.random.default_rng(groups)
    images, filters = rng.standard_normal((2, 5, 5, 6)), rng.standard_normal((12, 3, 3, 6 // groups))
    (result,) = compute(
        OperationType.GROUPED_CONV_2D,
        [
            tensor(F32, images),
            tensor(F32, filters),
            tensor(F32, np.zeros(12)),
            *integers(0, 1, 1, 0, 2, 1, groups, 0),
            boolean(False),
        ],
        output(F32),
    )
    expected, magnitudes = (
        convolution(values, weights, (1, 2), ((1, 0), (0, 1)), groups=groups)
        for values, weights in ((images, filters), (np.abs(images), np.abs(filters)))
    )
    assert_sums_agree(result, expected, filters[0].size + 1, magnitudes)


TRANSPOSE_CONV_2D_RNG = np.random.default_rng(5)
IMAGES, FILTERS = (
    TRANSPOSE_CONV_2D_RNG.standard_normal((2, 3, 4, 3)),
    TRANSPOSE_CONV_2D_RNG.standard_normal((2, 3, 2, 3)),
)
BIAS = np.array([1.0, -1.0])
TENSORS = [
    tensor(F32, IMAGES),
    tensor(F32, FILTERS),
    tensor(F32, BIAS),
]
_SIGNED = (IMAGES, FILTERS, BIAS), (np.abs(IMAGES), np.abs(FILTERS), np.abs(BIAS))
"""The values, and what the rounding of their sums is measured by."""


def test_every_element_adds_its_filter() -> None:
    (result,) = compute(
        OperationType.TRANSPOSE_CONV_2D,
        [*TENSORS, *integers(1, 0, 0, 2, 1, 2, 0), boolean(False)],
        output(F32),
    )
    expected, magnitudes = (
        transposed_convolution(values, weights, (2, 1), ((0, 2), (1, 0))) + bias for values, weights, bias in _SIGNED
    )
    assert_sums_agree(result, expected, FILTERS[0].size + 1, magnitudes)


@pytest.mark.parametrize("scheme", [SAME, VALID])
def test_elements_that_no_filter_reaches_are_the_bias(scheme: int) -> None:
    shape = tensor(I32, [2, 12, 16, 2] if scheme == SAME else [2, 14, 17, 2])
    (result,) = compute(
        OperationType.TRANSPOSE_CONV_2D,
        [*TENSORS, shape, *integers(scheme, 4, 4, 0), boolean(False)],
        output(F32),
    )
    expected, magnitudes = np.zeros((2, *result.shape))
    for sums, (values, weights, bias) in zip((expected, magnitudes), _SIGNED, strict=True):
        sums[:, :11, :14] = transposed_convolution(values, weights, (4, 4), ((0, 0), (0, 0)))[:, :11, :14]
        sums += bias
    assert_sums_agree(result, expected, FILTERS[0].size + 1, magnitudes)


def test_channels_first_and_quantised() -> None:
    images = np.arange(8).reshape(1, 2, 2, 2)
    filters = np.arange(16).reshape(2, 2, 2, 2)
    (result,) = compute(
        OperationType.TRANSPOSE_CONV_2D,
        [
            tensor(OperandType.TENSOR_QUANT8_ASYMM, np.moveaxis(images, 3, 1), 1.0, 4),
            tensor(OperandType.TENSOR_QUANT8_ASYMM, filters, 1.0, 8),
            tensor(I32, [0, 10], 1.0),
            *integers(0, 0, 0, 0, 1, 1, 0),
            boolean(True),
        ],
        output(OperandType.TENSOR_QUANT8_ASYMM, (), 1.0, 100),
    )
    expected = transposed_convolution(images - 4, filters - 8, (1, 1), ((0, 0), (0, 0)))
    np.testing.assert_array_equal(np.moveaxis(result, 1, 3), np.clip(expected + np.array([100, 110]), 0, 255))


def test_transpose_conv_2d_no_images_give_no_images() -> None:
    inputs = [
        tensor(F32, np.zeros((0, 3, 4, 3))),
        *TENSORS[1:],
        tensor(I32, [0, 6, 8, 2]),
    ]
    (result,) = compute(
        OperationType.TRANSPOSE_CONV_2D,
        [*inputs, *integers(SAME, 2, 2, 0), boolean(False)],
        output(F32),
    )
    assert result.shape == (0, 6, 8, 2)
