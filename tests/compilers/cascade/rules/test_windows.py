from __future__ import annotations

import numpy as np
import pytest

from nnhal.operations.operand_types import I32, Q8A
from nnhal.resolved import ResolvedModel
from nnhal.types import Operand, OperandType, OperationType
from tests.support.agreement import single
from tests.support.ethos_u import assert_limit, is_taken, refusal
from tests.support.models import Recipe
from tests.support.npu import SAME, TYPES, VALID, convolution

BOTH_TYPES = pytest.mark.parametrize("code", TYPES)
IMAGE = (1, 70, 70, 2)


def convolved(
    code: OperandType = Q8A,
    kernel: tuple[int, int] = (3, 3),
    strides: tuple[int, int] = (1, 1),
    dilations: tuple[int, int] = (1, 1),
    image: tuple[int, int, int, int] = IMAGE,
    scheme: int = VALID,
) -> ResolvedModel:
    parameters = [scheme, strides[1], strides[0], 0, False, dilations[1], dilations[0]]
    return convolution(code, (2, *kernel, image[3]), parameters, image)


@pytest.mark.parametrize(
    ("inside", "outside", "covered"),
    [
        (convolved(kernel=(64, 1)), convolved(kernel=(65, 1)), "65 x 1"),
        (convolved(kernel=(64, 64)), convolved(kernel=(60, 70)), "60 x 70"),
        (convolved(kernel=(4, 1), dilations=(21, 1)), convolved(kernel=(4, 1), dilations=(22, 1)), "67 x 1"),
    ],
)
def test_what_a_filter_covers(inside: ResolvedModel, outside: ResolvedModel, covered: str) -> None:
    allowed = "at most 64 rows and 4096 elements"
    assert_limit(inside, outside, "KERNEL", f"a filter that covers {covered}", allowed)


@BOTH_TYPES
def test_strides(code: OperandType) -> None:
    allowed = "1, 2 or 3 in each direction, one window along the axis, or no padding and dilation"
    inside, outside = convolved(code, strides=(3, 2)), convolved(code, strides=(4, 2), scheme=SAME)
    assert_limit(inside, outside, "STRIDE", "strides of 4 x 2", allowed)
    assert is_taken(convolved(code, kernel=(3, 3), strides=(1, 7), image=(1, 9, 3, 2)))
    assert is_taken(convolved(code, kernel=(8, 8), strides=(8, 8)))
    assert not is_taken(convolved(code, strides=(4, 2), dilations=(2, 1)))


def test_paddings_are_smaller_than_the_filter() -> None:
    def padded(before: int) -> ResolvedModel:
        return convolution(Q8A, (2, 3, 3, 2), [before, 0, 0, 0, 1, 1, 0], (1, 8, 8, 2))

    got = "paddings of 3 and 0 at a window of 3"
    assert_limit(padded(2), padded(3), "KERNEL", got, "paddings smaller than the window")


def test_images_have_their_channels_last() -> None:
    reason = refusal(convolution(Q8A, (2, 3, 3, 2), [VALID, 1, 1, 0, True], (1, 2, 8, 8)))
    assert (reason.code, reason.allowed) == ("LAYOUT", "channels last (NHWC)")


def test_depthwise_strides_and_multiplier() -> None:
    def depthwise(stride: int, channels: int, filters: int) -> ResolvedModel:
        parameters = [SAME, stride, stride, filters // channels, 0]
        image = (1, 9, 9, channels)
        return convolution(Q8A, (1, 3, 3, filters), parameters, image, OperationType.DEPTHWISE_CONV_2D)

    allowed = "1, 2 or 3 in each direction"
    assert_limit(depthwise(3, 4, 4), depthwise(4, 4, 4), "STRIDE", "strides of 4 x 4", allowed)
    got = "a depth multiplier of 2 on 4 channels"
    assert_limit(depthwise(1, 1, 8), depthwise(1, 4, 8), "SHAPE", got, "1, or images of one channel")


def test_transposed_strides_and_sizes() -> None:
    def transposed(stride: int, side: int, scheme: int = SAME) -> ResolvedModel:
        parameters: list[int | bool | list[int]] = [[1, side, side, 2], scheme, stride, stride, 0, False]
        return convolution(Q8A, (2, 3, 3, 2), parameters, (1, 4, 4, 2), OperationType.TRANSPOSE_CONV_2D)

    allowed = "1 or 2, the same in both directions"
    assert_limit(transposed(2, 8), transposed(3, 12), "STRIDE", "strides of 3 x 3", allowed)
    assert is_taken(transposed(2, 9, VALID))
    allowed = "an output of 8 x 8 (SAME) or 9 x 9 (VALID)"
    assert_limit(transposed(2, 8), transposed(2, 7), "SHAPE", "4 x 4 to 7 x 7", allowed)


def test_one_row_is_stretched() -> None:
    def stretched(height: int) -> ResolvedModel:
        parameters: list[int | bool | list[int]] = [[1, height, 8, 2], SAME, 2, 1, 0, False]
        image = (1, height, 4, 2)
        return convolution(Q8A, (2, 1, 3, 2), parameters, image, OperationType.TRANSPOSE_CONV_2D)

    allowed = "1 or 2, the same in both directions"
    assert_limit(stretched(1), stretched(2), "STRIDE", "strides of 1 x 2", allowed)


def test_the_sum_of_a_filters_magnitudes() -> None:
    def wide(magnitude: int) -> ResolvedModel:
        recipe, depth = Recipe(), 65_535
        weights = np.full((1, 1, 1, depth), 128 + magnitude)
        inputs = [
            recipe.input(Q8A, (1, 2, 2, depth), 0.5, 128),
            recipe.constant(Q8A, weights, 0.25, 128),
            recipe.constant(I32, np.zeros(1), 0.125),
            *recipe.integers(SAME, 1, 1, 0),
        ]
        return recipe.build(recipe.operation(OperationType.CONV_2D, inputs, Operand(Q8A, (), 1.0, 128)))

    assert is_taken(wide(127))
    recipe = Recipe()
    weights = np.zeros((1, 2, 1, 65_535))
    inputs = [
        recipe.input(Q8A, (1, 2, 2, 65_535), 0.5, 128),
        recipe.constant(Q8A, weights, 0.25, 128),
        recipe.constant(I32, np.zeros(1), 0.125),
        *recipe.integers(VALID, 1, 1, 0),
    ]
    reason = refusal(recipe.build(recipe.operation(OperationType.CONV_2D, inputs, Operand(Q8A, (), 1.0, 128))))
    assert reason.code == "KERNEL"
    assert reason.got == f"a filter whose magnitudes add up to {2 * 65_535 * 128}"
    assert reason.allowed == f"at most {127 * 65_536}"


POOLINGS = pytest.mark.parametrize("operation", [OperationType.AVERAGE_POOL_2D, OperationType.MAX_POOL_2D])


def pooled(
    operation: OperationType, height: int, width: int, stride: int, side: int, scheme: int = VALID
) -> ResolvedModel:
    return single(operation, Q8A, [(1, side, side, 1)], [scheme, stride, stride, width, height, 0])


@POOLINGS
def test_strides_of_poolings(operation: OperationType) -> None:
    allowed = "1, 2 or 3 in each direction, one window along the axis, or no padding and dilation"
    inside, outside = pooled(operation, 2, 2, 4, 9), pooled(operation, 2, 2, 4, 9, SAME)
    assert_limit(inside, outside, "STRIDE", "strides of 4 x 4", allowed)
    assert is_taken(pooled(operation, 7, 7, 7, 7))


@POOLINGS
def test_sizes(operation: OperationType) -> None:
    allowed = "at most 256 rows and 65536 elements"
    inside, outside = pooled(operation, 256, 1, 1, 257), pooled(operation, 257, 1, 1, 257)
    assert_limit(inside, outside, "KERNEL", "a window of 257 x 1", allowed)


def test_averages_with_padding_are_small() -> None:
    average, maximum = OperationType.AVERAGE_POOL_2D, OperationType.MAX_POOL_2D
    got, allowed = "an average over 9 x 8 with padding", "sides of at most 8 with padding, larger ones without"
    inside, outside = pooled(average, 8, 8, 1, 12, SAME), pooled(average, 9, 8, 1, 12, SAME)
    assert_limit(inside, outside, "KERNEL", got, allowed)
    assert is_taken(pooled(maximum, 9, 8, 1, 12, SAME))
    assert is_taken(pooled(average, 9, 8, 1, 12))


@pytest.mark.parametrize("code", TYPES)
def test_elements_of_a_mean(code: OperandType) -> None:
    def mean(rows: int) -> ResolvedModel:
        return single(OperationType.MEAN, code, [(1, rows, 4096, 1)], [[1, 2], 1])

    got, allowed = f"a mean of {2049 * 4096} elements", f"at most {2**23}"
    assert_limit(mean(2048), mean(2049), "SHAPE", got, allowed)


@pytest.mark.parametrize(("axis", "name"), [(2, "columns"), (3, "channels")])
def test_extents_of_a_mean(axis: int, name: str) -> None:
    def mean(extent: int) -> ResolvedModel:
        dimensions = [1, 2, 2, 2]
        dimensions[axis] = extent
        return single(OperationType.MEAN, Q8A, [tuple(dimensions)], [[axis], 1])

    assert_limit(mean(4096), mean(4097), "SHAPE", f"a mean over 4097 {name}", "at most 4096")
