from __future__ import annotations

import pytest

from nnhal_cascade.geometry.propagator import Propagator
from nnhal_cascade.geometry.propagators import (
    SlidingWindow,
    convolution,
    convolution_weights,
    depthwise,
    depthwise_weights,
    elementwise,
    nhcwb16_to_nhwc,
    nhwc_to_nhcwb16,
    opaque,
    scales,
    transpose_convolution,
    upscale,
)
from nnhal_cascade.geometry.stripe_config import StripeConfig
from tests.support.known_good import config_of, known_good, needs_known_good


def stripes(*shape: int) -> StripeConfig:
    """Return the stripes of a tensor of [1, 24, 30, 48]."""
    counts = tuple(-(-extent // length) for extent, length in zip((1, 24, 30, 48), shape, strict=True))
    return StripeConfig(shape, (1, 24, 30, 48), shape, (1, 2, 3, 4), counts, (0, 0, 0, 0))


def shape(propagator: Propagator, *wanted: int) -> tuple[int, ...]:
    return propagator.propagate(stripes(*wanted)).shape


@needs_known_good
def test_windows_and_layouts_have_the_matrices_that_are_known() -> None:
    seen = set()
    for case in known_good("propagate"):
        if "kernel" in case:
            window = SlidingWindow(*(tuple(case[name]) for name in ("kernel", "stride", "dilation", "pad")))
            out, kernel = config_of(case["out"]), tuple(case["kernel"])
            channels = case["weights_shape"][3]
            ours = convolution(window, channels) if case["op"] == "conv" else depthwise(window)
            weights = convolution_weights(kernel, channels) if case["op"] == "conv" else depthwise_weights(kernel)
            assert weights.propagate(out).shape == tuple(case["weights_shape"])
        elif case["op"] == "nhwc_to_nhcwb16":
            ours = nhwc_to_nhcwb16()
        else:
            continue
        seen.add(case["op"])
        assert (ours.matrix, ours.offset) == (tuple(map(tuple, case["matrix"])), tuple(case["offset"]))
    assert seen


def test_a_convolution_needs_its_kernel_more_and_all_channels() -> None:
    assert shape(convolution(SlidingWindow((3, 3)), 8), 1, 3, 3, 4) == (1, 5, 5, 8)
    assert shape(convolution_weights((3, 3), 8), 1, 3, 3, 4) == (4, 3, 3, 8)
    assert shape(scales(), 1, 3, 3, 4) == (4, 10)


def test_a_depthwise_convolution_needs_the_same_channels() -> None:
    assert shape(depthwise(SlidingWindow((3, 5), (2, 1))), 1, 4, 6, 16) == (1, 9, 10, 16)
    assert shape(depthwise_weights((3, 5)), 1, 4, 6, 16) == (16, 3, 5, 1)


def test_a_broadcast_operand_is_needed_whole() -> None:
    operand = elementwise((1, 1, 30, 1), (1, 24, 30, 48)).propagate(stripes(1, 4, 6, 16))
    assert (operand.shape, operand.stripes) == ((1, 1, 6, 1), (1, 1, 5, 1))


def test_what_is_opaque_is_needed_whole() -> None:
    given = opaque((1, 34560), 4).propagate(stripes(1, 4, 6, 16))
    assert (given.shape, given.stripes, given.order) == ((1, 34560), (1, 1), (0, 0))


def test_channels_become_bricks_and_come_back() -> None:
    config = StripeConfig((1, 12, 14, 36), (1, 24, 18, 72), (1, 12, 14, 36), (1, 2, 3, 4), (1, 2, 2, 2), (0, 0, 0, 0))
    bricks = nhwc_to_nhcwb16().propagate(config)
    assert bricks == StripeConfig(
        (1, 12, 3, 14, 16), (1, 24, 5, 18, 16), (1, 12, 2.25, 14, 0), (1, 2, 4, 3, 0), (1, 2, 2, 2, 1), (0,) * 5
    )
    assert nhcwb16_to_nhwc(72).propagate(bricks).extent == (1, 24, 18, 72)
    assert nhcwb16_to_nhwc(80).propagate(bricks).extent == (1, 24, 18, 80)


@pytest.mark.parametrize(("rows", "expected"), [(1, 1), (2, 2), (3, 2), (4, 3)])
def test_twice_the_size_needs_half_of_it_and_the_row_in_which_it_starts(rows: int, expected: int) -> None:
    assert shape(upscale(2), 1, rows, rows, 4) == (1, expected, expected, 4)


def test_a_transpose_convolution_needs_few_rows_and_all_channels() -> None:
    given = transpose_convolution((3, 4), (2, 2), (1, 1), 8).propagate(stripes(1, 4, 4, 16))
    assert (given.shape, given.strides, given.offset) == ((1, 3, 4, 8), (1, 2, 2, 0), (0, 0, -1, 0))
