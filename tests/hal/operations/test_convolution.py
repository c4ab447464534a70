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
    tensor,
)

F32 = OperandType.TENSOR_FLOAT32
Q8A = OperandType.TENSOR_QUANT8_ASYMM
I32 = OperandType.TENSOR_INT32
CONV = OperationType.CONV_2D
IMAGES, FILTERS, BIAS = (
    open_tensor(F32, (1, 8, 8, 3)),
    open_tensor(F32, (5, 3, 3, 3)),
    open_tensor(F32, (5,)),
)
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


DEPTHWISE = OperationType.DEPTHWISE_CONV_2D


def inputs_depthwise_conv_2d(filters: tuple[int, ...], multiplier: int) -> list[Given]:
    tensors = [open_tensor(F32, dimensions) for dimensions in ((1, 8, 8, 3), filters, (filters[3],))]
    return [*tensors, *integers(SAME, 2, 2, multiplier, 0)]


def test_channels_are_multiplied() -> None:
    assert dimensions_of(DEPTHWISE, inputs_depthwise_conv_2d((1, 3, 3, 6), 2), output(F32)) == ((1, 4, 4, 6),)


def test_eleven_inputs_are_implicit_with_a_layout_and_explicit_without() -> None:
    out = output(F32, (1, 4, 4, 3))
    implicit = [*inputs_depthwise_conv_2d((1, 3, 3, 3), 1), boolean(False), *integers(1, 1)]
    explicit = [*implicit[:3], *integers(1, 1, 1, 1, 2, 2, 1, 0)]
    assert (len(implicit), level_of(DEPTHWISE, implicit, out)) == (11, 3)
    assert (len(explicit), level_of(DEPTHWISE, explicit, out)) == (11, 1)


@pytest.mark.parametrize(
    ("filters", "multiplier", "complaint"),
    [
        ((2, 3, 3, 3), 1, "first axis is 2, expected 1"),
        ((1, 3, 3, 6), 1, "6 channels, expected 3 x multiplier 1"),
        ((1, 3, 3, 3), 0, "depth multiplier 0"),
    ],
)
def test_filters_that_do_not_fit_are_refused(filters: tuple[int, ...], multiplier: int, complaint: str) -> None:
    with pytest.raises(HalError, match=complaint):
        dimensions_of(DEPTHWISE, inputs_depthwise_conv_2d(filters, multiplier), output(F32))


GROUPED = OperationType.GROUPED_CONV_2D


def inputs_grouped_conv_2d(channels: int, groups: int) -> list[Given]:
    tensors = [open_tensor(F32, dimensions) for dimensions in ((1, 4, 4, channels), (6, 3, 3, 2), (6,))]
    return [*tensors, *integers(SAME, 1, 1, groups, 0), boolean(False)]


def test_output_channels_are_those_of_the_filter() -> None:
    assert dimensions_of(GROUPED, inputs_grouped_conv_2d(4, 2), output(F32)) == ((1, 4, 4, 6),)


def test_the_layout_must_be_given() -> None:
    with pytest.raises(HalError, match="got 8 inputs, expected 9"):
        level_of(GROUPED, inputs_grouped_conv_2d(4, 2)[:-1], output(F32))


@pytest.mark.parametrize(
    ("channels", "groups", "complaint"),
    [
        (5, 2, "expected 2 groups of 2"),
        (8, 4, "expected a multiple of 4, the number of groups"),
        (4, 0, "number of groups 0"),
    ],
)
def test_groups_that_do_not_divide_are_refused(channels: int, groups: int, complaint: str) -> None:
    with pytest.raises(HalError, match=complaint):
        dimensions_of(GROUPED, inputs_grouped_conv_2d(channels, groups), output(F32))


TRANSPOSE = OperationType.TRANSPOSE_CONV_2D


def tensors(images: tuple[int, ...] = (1, 2, 3, 1)) -> list[Given]:
    return [
        open_tensor(F32, images),
        open_tensor(F32, (2, 3, 3, 1)),
        open_tensor(F32, (2,)),
    ]


def asking(shape: Given, scheme: int, channels_first: bool = False) -> list[Given]:
    images = (1, 1, 2, 3) if channels_first else (1, 2, 3, 1)
    return [*tensors(images), shape, *integers(scheme, 2, 2, 0), boolean(channels_first)]


def test_the_explicit_form_yields_the_smallest_output() -> None:
    explicit = [*tensors(), *integers(1, 0, 0, 1, 2, 2, 0), boolean(False)]
    assert level_of(TRANSPOSE, explicit, output(F32, (1, 4, 6, 2))) == 3
    assert dimensions_of(TRANSPOSE, explicit, output(F32)) == ((1, 4, 6, 2),)


@pytest.mark.parametrize(
    ("shape", "scheme"), [((1, 3, 5, 2), SAME), ((1, 4, 6, 2), SAME), ((1, 5, 7, 2), VALID), ((1, 6, 8, 2), VALID)]
)
def test_the_implicit_form_yields_what_is_asked_for(shape: tuple[int, ...], scheme: int) -> None:
    assert dimensions_of(TRANSPOSE, asking(tensor(I32, shape), scheme), output(F32)) == (shape,)


def test_the_shape_asked_for_is_in_the_layout() -> None:
    inputs = asking(tensor(I32, (1, 2, 4, 6)), SAME, channels_first=True)
    assert dimensions_of(TRANSPOSE, inputs, output(F32)) == ((1, 2, 4, 6),)


@pytest.mark.parametrize(
    ("shape", "scheme", "wrong"),
    [
        ((1, 5, 6, 2), SAME, "an output of"),
        ((1, 4, 7, 2), VALID, "an output of"),
        ((1, 0, 6, 2), SAME, "an output of"),
        ((2, 4, 6, 2), SAME, "output shape"),
        ((1, 4, 6, 1), SAME, "output shape"),
    ],
)
def test_a_shape_that_the_input_cannot_have_is_refused(shape: tuple[int, ...], scheme: int, wrong: str) -> None:
    with pytest.raises(HalError, match=wrong):
        dimensions_of(TRANSPOSE, asking(tensor(I32, shape), scheme), output(F32))


def test_a_shape_that_is_not_known_yet_leaves_everything_open() -> None:
    with pytest.raises(UnknownYet):
        dimensions_of(TRANSPOSE, asking(open_tensor(I32, (4,)), SAME), output(F32))


def test_an_unknown_input_leaves_its_axes_open() -> None:
    inputs = [*tensors((0, 2, 0, 1)), *integers(0, 0, 0, 0, 2, 2, 0), boolean(False)]
    assert dimensions_of(TRANSPOSE, inputs, output(F32)) == ((0, 5, 0, 2),)
