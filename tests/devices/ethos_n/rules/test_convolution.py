from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnhal.operations.operand_types import I32
from nnhal.resolved import ResolvedModel
from nnhal.types import Operand, OperandType, OperationType
from tests.support.agreement import QUANTIZATION
from tests.support.models import Recipe
from tests.support.npu import SAME, TYPES, VALID, assert_limit, convolution, is_taken, refusal

SIDES = "sides of 1, 2, 3, 5, 7 or 9"
STRIDES = "1 or 2, the same in both directions"
SCALES = "2.33e-10 to less than 1"
LAST = "channels last (NHWC)"

pytestmark = pytest.mark.parametrize("code", TYPES)


def filtered(code: OperandType, height: int, width: int, stride: int = 1, **special: Any) -> ResolvedModel:
    return convolution(code, (4, height, width, 2), [SAME, stride, stride, 0], **special)


def strided(code: OperandType, width: int, height: int) -> ResolvedModel:
    return convolution(code, (4, 3, 3, 2), [VALID, width, height, 0])


def depthwise(code: OperandType, image: tuple[int, ...], multiplier: int, side: int = 3) -> ResolvedModel:
    kernel = (1, side, side, image[-1] * multiplier)
    return convolution(code, kernel, [SAME, 1, 1, multiplier, 0], image, OperationType.DEPTHWISE_CONV_2D)


def transposed(code: OperandType, side: int, stride: int, channels_first: bool = False) -> ResolvedModel:
    image = (1, 2, 4, 4) if channels_first else (1, 4, 4, 2)
    output = [1, 4, 4 * stride, 4 * stride] if channels_first else [1, 4 * stride, 4 * stride, 4]
    parameters: list[int | list[int]] = [output, SAME, stride, stride, 0, channels_first]
    return convolution(code, (4, side, side, 2), parameters, image, OperationType.TRANSPOSE_CONV_2D)


def connected(
    code: OperandType, size: int, image: tuple[int, ...], scales: tuple[float, float, float] = (0.5, 0.25, 1.0)
) -> ResolvedModel:
    recipe, zero_point = Recipe(), QUANTIZATION[code][1]
    given, weight, made = scales
    inputs = [
        recipe.input(code, image, given, zero_point),
        recipe.constant(code, np.zeros((3, size)), weight, zero_point),
        recipe.constant(I32, np.zeros(3), given * weight),
        *recipe.integers(0),
    ]
    return recipe.build(recipe.operation(OperationType.FULLY_CONNECTED, inputs, Operand(code, (), made, zero_point)))


@pytest.mark.parametrize("sides", [(1, 1), (1, 9), (9, 9), (5, 2), (7, 3)])
def test_filters_of_listed_sides(code: OperandType, sides: tuple[int, int]) -> None:
    assert is_taken(filtered(code, *sides))


@pytest.mark.parametrize(
    ("sides", "hint"),
    [((4, 3), "5 x 3"), ((3, 6), "3 x 7"), ((8, 8), "9 x 9"), ((10, 3), "smaller"), ((3, 11), "smaller")],
)
def test_filters_of_other_sides(code: OperandType, sides: tuple[int, int], hint: str) -> None:
    reason = refusal(filtered(code, *sides))
    assert (reason.code, reason.got, reason.allowed) == ("KERNEL", f"a filter of {sides[0]} x {sides[1]}", SIDES)
    assert hint in reason.hint


def test_strides_of_1_and_2(code: OperandType) -> None:
    assert is_taken(strided(code, 1, 1))
    assert_limit(strided(code, 2, 2), strided(code, 3, 3), "STRIDE", "strides of 3 x 3", STRIDES)
    assert_limit(strided(code, 2, 2), strided(code, 2, 1), "STRIDE", "strides of 1 x 2", STRIDES)


def test_large_filters_move_by_1(code: OperandType) -> None:
    got = "strides of 2 x 2 with a filter of 9"
    assert_limit(filtered(code, 9, 1), filtered(code, 9, 1, 2), "STRIDE", got, "1 for filters of that size")
    assert is_taken(filtered(code, 7, 7, 2))


def test_no_dilation(code: OperandType) -> None:
    def dilated(by: int) -> ResolvedModel:
        return convolution(code, (4, 3, 3, 2), [SAME, 1, 1, 0, False, by, by])

    assert_limit(dilated(1), dilated(2), "KERNEL", "a dilation of 2 x 2", "dilation 1")


def test_paddings_smaller_than_the_filter(code: OperandType) -> None:
    def padded(by: int) -> ResolvedModel:
        return convolution(code, (4, 3, 3, 2), [by, by, by, by, 1, 1, 0])

    got = "paddings of 3 and 3 at a filter of 3"
    assert_limit(padded(2), padded(3), "KERNEL", got, "paddings smaller than the filter")


def test_channels_last(code: OperandType) -> None:
    def laid_out(channels_first: bool) -> ResolvedModel:
        image = (1, 2, 8, 8) if channels_first else (1, 8, 8, 2)
        return convolution(code, (4, 3, 3, 2), [SAME, 1, 1, 0, channels_first], image)

    got = "images of [batch, channels, height, width]"
    assert_limit(laid_out(False), laid_out(True), "LAYOUT", got, LAST)
    assert_limit(transposed(code, 3, 2), transposed(code, 3, 2, True), "LAYOUT", got, LAST)


@pytest.mark.parametrize("activation", range(4))
def test_every_activation(code: OperandType, activation: int) -> None:
    assert is_taken(convolution(code, (4, 3, 3, 2), [SAME, 1, 1, activation]))


def test_the_multiplier_is_below_1(code: OperandType) -> None:
    got = "input scale x filter scale / output scale = 1"
    inside, outside = (filtered(code, 3, 3, scales=(0.5, 0.5, scale)) for scale in (0.2501, 0.25))
    assert_limit(inside, outside, "QUANT", got, SCALES)
    outside = connected(code, 6, (1, 6), (0.5, 0.5, 0.25))
    assert_limit(connected(code, 6, (1, 6), (0.5, 0.5, 0.2501)), outside, "QUANT", got, SCALES)


def test_the_multiplier_has_a_least_value(code: OperandType) -> None:
    got = "input scale x filter scale / output scale = 1.16415e-10"
    inside, outside = (filtered(code, 3, 3, scales=(2.0**-16, 2.0**-16, scale)) for scale in (1.0, 2.0))
    assert_limit(inside, outside, "QUANT", got, SCALES)


def test_each_channel_has_a_multiplier(code: OperandType) -> None:
    inside, outside = (filtered(code, 3, 3, channel_scales=(0.1, 0.1, last, 0.1)) for last in (1.9, 2.0))
    assert_limit(inside, outside, "QUANT", "input scale x filter scale / output scale = 1", SCALES)


def test_depth_multipliers(code: OperandType) -> None:
    got = "a depth multiplier of 2 on 2 channels"
    inside, outside = depthwise(code, (1, 8, 8, 2), 1), depthwise(code, (1, 8, 8, 2), 2)
    assert_limit(inside, outside, "SHAPE", got, "1, or images of one channel")
    assert is_taken(depthwise(code, (1, 8, 8, 1), 5))


def test_depthwise_filters(code: OperandType) -> None:
    inside, outside = depthwise(code, (1, 8, 8, 2), 1, 5), depthwise(code, (1, 8, 8, 2), 1, 4)
    assert_limit(inside, outside, "KERNEL", "a filter of 4 x 4", SIDES)


def test_a_depthwise_mean_of_a_whole_small_image_may_have_any_sides(code: OperandType) -> None:
    def averaging(height: int, width: int, weight: int | None = 1, stride: int = 1, image: int = 0) -> ResolvedModel:
        sides, given = (1, height, width, 2), (1, image or height, width, 2)
        parameters = [VALID, stride, stride, 1, 0]
        kind = OperationType.DEPTHWISE_CONV_2D
        return convolution(code, sides, parameters, given, kind, weight_everywhere=weight)

    allowed = "sides of 1, 2, 3, 5, 7 or 9"
    assert_limit(averaging(4, 8), averaging(4, 8, None), "KERNEL", "a filter of 4 x 8", allowed)
    assert_limit(averaging(8, 6, 5, 8), averaging(10, 6, 5, 1), "KERNEL", "a filter of 10 x 6", allowed)
    assert_limit(averaging(4, 4), averaging(4, 4, image=5), "KERNEL", "a filter of 4 x 4", allowed)


def test_transposed_convolutions(code: OperandType) -> None:
    assert_limit(transposed(code, 5, 2), transposed(code, 6, 2), "KERNEL", "a filter of 6 x 6", SIDES)
    assert_limit(transposed(code, 3, 1), transposed(code, 3, 3), "STRIDE", "strides of 3 x 3", STRIDES)


def test_one_row_of_a_fully_connected_layer(code: OperandType) -> None:
    assert is_taken(connected(code, 12, (1, 2, 2, 3)))
    got, row = "[1, 2, 2, 3] as 2 rows of 6", "one row (batch 1)"
    assert_limit(connected(code, 6, (1, 6)), connected(code, 6, (1, 2, 2, 3)), "SHAPE", got, row)


def test_how_long_a_row_may_be(code: OperandType) -> None:
    inside, outside = connected(code, 32_768, (1, 2, 1, 16_384)), connected(code, 32_770, (1, 2, 1, 16_385))
    got = "[1, 2, 1, 16385] as a row of 32770"
    assert_limit(inside, outside, "SHAPE", got, "at most 32768")
