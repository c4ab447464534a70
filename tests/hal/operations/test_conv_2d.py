from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.operations import UnknownYet
from nnhal.operations._window import SAME, VALID, Axis
from nnhal.operations.convolution import window_of_conv_2d
from nnhal.types import OperandType, OperationType
from tests.support.operations import (
    Given,
    boolean,
    context,
    dimensions_of,
    integers,
    level_of,
    open_tensor,
    output,
    per_channel,
)

F32 = OperandType.TENSOR_FLOAT32
Q8A = OperandType.TENSOR_QUANT8_ASYMM
I32 = OperandType.TENSOR_INT32
CONV = OperationType.CONV_2D
IMAGES, FILTERS, BIAS = open_tensor(F32, (1, 8, 8, 3)), open_tensor(F32, (5, 3, 3, 3)), open_tensor(F32, (5,))
OUT = output(F32, (1, 8, 8, 5))


def parameters(count: int) -> list[Given]:
    """Return ``count`` inputs that follow the tensors."""
    if count in (4, 5, 7):
        return [*integers(SAME, 1, 1, 0), boolean(False), *integers(2, 2)][:count]
    return [*integers(1, 1, 1, 1, 1, 1, 0), boolean(False), *integers(2, 2)][:count]


@pytest.mark.parametrize(("count", "level"), [(4, 1), (5, 3), (7, 3), (10, 3)])
def test_every_form_needs_its_level(count: int, level: int) -> None:
    assert level_of(CONV, [IMAGES, FILTERS, BIAS, *parameters(count)], OUT) == level


def test_the_explicit_form_alone_needs_no_more_than_level_1() -> None:
    assert level_of(CONV, [IMAGES, FILTERS, BIAS, *integers(1, 1, 1, 1, 1, 1, 0)], OUT) == 1


@pytest.mark.parametrize("count", [3, 6, 9, 11])
def test_a_dilation_comes_as_a_pair(count: int) -> None:
    all_of_them = [*parameters(10), *integers(1)] if count > 7 else parameters(7)
    with pytest.raises(HalError, match="inputs, expected"):
        level_of(CONV, [IMAGES, FILTERS, BIAS, *all_of_them[:count]], OUT)


def test_a_number_in_place_of_the_layout_is_refused() -> None:
    with pytest.raises(HalError, match=r"input 7 \(layout\) is INT32, expected BOOL"):
        level_of(CONV, [IMAGES, FILTERS, BIAS, *parameters(4), *integers(0)], OUT)


def test_ten_inputs_are_implicit_with_a_layout_and_explicit_without() -> None:
    implicit = window_of_conv_2d(context(CONV, [IMAGES, FILTERS, BIAS, *parameters(7)], [OUT]))
    explicit = window_of_conv_2d(context(CONV, [IMAGES, FILTERS, BIAS, *integers(0, 1, 2, 3, 1, 2, 0)], [OUT]))
    assert (implicit.height, implicit.scheme) == (Axis(3, 1, 2, 2, dilation=2), SAME)
    assert (explicit.height, explicit.width, explicit.scheme) == (Axis(3, 2, 2, 3), Axis(3, 1, 0, 1), None)


def quantized(bias_scale: float, output_scale: float, filters: Given | None = None) -> tuple[list[Given], int]:
    inputs = [
        open_tensor(Q8A, (1, 8, 8, 3), 0.5),
        filters or open_tensor(Q8A, (5, 3, 3, 3), 0.25),
        open_tensor(I32, (5,), bias_scale),
        *parameters(4),
    ]
    return inputs, level_of(CONV, inputs, output(Q8A, (1, 8, 8, 5), output_scale))


def test_small_output_scales_came_with_level_3() -> None:
    assert quantized(0.125, 0.25)[1] == 1
    assert quantized(0.125, 0.125)[1] == 3


def test_a_per_channel_filter_has_its_channels_first_and_a_bias_without_scale() -> None:
    filters = np.zeros((5, 3, 3, 3))
    inputs, level = quantized(0.0, 1.0, per_channel(filters, [0.5] * 5, 0))
    assert level == 3
    assert dimensions_of(CONV, inputs, output(Q8A, scale=1.0)) == ((1, 8, 8, 5),)
    with pytest.raises(HalError, match="channel dimension is 3, expected 0"):
        quantized(0.0, 1.0, per_channel(filters, [0.5] * 3, 3))


def test_a_bias_of_another_scale_is_refused() -> None:
    inputs, _ = quantized(0.1, 1.0)
    with pytest.raises(HalError, match=r"bias has scale 0.1, expected 0.125"):
        dimensions_of(CONV, inputs, output(Q8A, scale=1.0))


def test_filters_of_another_type_are_refused() -> None:
    signed = open_tensor(OperandType.TENSOR_QUANT8_ASYMM_SIGNED, (5, 3, 3, 3), 0.25)
    with pytest.raises(HalError, match="input 1"):
        quantized(0.125, 1.0, signed)


def test_unknown_images_leave_their_axes_open() -> None:
    inputs = [open_tensor(F32, (0, 0, 8, 0)), FILTERS, BIAS, *integers(VALID, 1, 1, 0)]
    assert dimensions_of(CONV, inputs, OUT) == ((0, 0, 6, 5),)


def test_an_unknown_filter_or_rank_leaves_everything_open() -> None:
    for unknown in (0, 1):
        inputs = [IMAGES, FILTERS, BIAS, *parameters(4)]
        inputs[unknown] = replace(inputs[unknown], operand=replace(inputs[unknown].operand, dimensions=()))
        with pytest.raises(UnknownYet):
            dimensions_of(CONV, inputs, OUT)


@pytest.mark.parametrize(
    ("images", "bias", "complaint"),
    [((1, 8, 8, 4), (5,), "depth is 3, expected 4"), ((1, 8, 8, 3), (4,), "bias has dimensions")],
)
def test_operands_that_do_not_fit_are_refused(images: tuple[int, ...], bias: tuple[int, ...], complaint: str) -> None:
    with pytest.raises(HalError, match=complaint):
        dimensions_of(CONV, [open_tensor(F32, images), FILTERS, open_tensor(F32, bias), *parameters(4)], OUT)
