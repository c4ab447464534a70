from __future__ import annotations

from itertools import product

import pytest

from nnhal.operations import UnknownYet
from nnhal.operations.pooling import window_of
from nnhal.operations.windows import SAME, VALID, Axis, Window
from nnhal.types import FusedActivation, OperandType, OperationType
from tests.support.operations import Given, boolean, context, integers, open_tensor, output

F32 = OperandType.TENSOR_FLOAT32


def window(inputs: list[Given]) -> Window:
    return window_of(context(OperationType.MAX_POOL_2D, inputs, [output(F32)]))


def test_implicit_and_explicit_form_are_told_apart_and_width_comes_first() -> None:
    images = open_tensor(F32, (1, 8, 9, 2))
    implicit = window([images, *integers(VALID, 2, 3, 4, 5, 0)])
    explicit = window([images, *integers(1, 2, 3, 4, 2, 3, 4, 5, 3), boolean(False)])
    assert (implicit.height, implicit.width, implicit.scheme) == (Axis(5, 3, 0, 0), Axis(4, 2, 0, 0), VALID)
    assert (explicit.height, explicit.width, explicit.scheme) == (Axis(5, 3, 3, 4), Axis(4, 2, 1, 2), None)
    assert (implicit.activation, explicit.activation) == (FusedActivation.NONE, FusedActivation.RELU6)


def test_layout_decides_which_axes_the_window_slides_over() -> None:
    first = window([open_tensor(F32, (1, 2, 8, 9)), *integers(SAME, 2, 2, 3, 3, 0), boolean(True)])
    last = window([open_tensor(F32, (1, 8, 9, 2)), *integers(SAME, 2, 2, 3, 3, 0), boolean(False)])
    assert first.channels_first
    assert (first.height, first.width) == (last.height, last.width) == (Axis(3, 2, 0, 1), Axis(3, 2, 1, 1))


def test_same_keeps_the_length_divided_by_the_stride_rounded_up() -> None:
    for length, size, stride in product(range(1, 9), range(1, 5), range(1, 5)):
        axis = window([open_tensor(F32, (1, length, 1, 1)), *integers(SAME, 1, stride, 1, size, 0)]).height
        assert axis.output(length) == -(-length // stride)
        assert 0 <= axis.after - axis.before <= 1


def test_paddings_of_an_unknown_length_are_left_open() -> None:
    axis = window([open_tensor(F32, (0, 0, 0, 0)), *integers(SAME, 1, 1, 3, 3, 0)]).height
    assert axis == Axis(3, 1, 0, 0)


def test_an_unknown_layout_raises_unknown_yet() -> None:
    with pytest.raises(UnknownYet):
        window(
            [open_tensor(F32, (1, 2, 2, 1)), *integers(SAME, 1, 1, 1, 1, 0), Given(boolean(False).operand)],
        )
