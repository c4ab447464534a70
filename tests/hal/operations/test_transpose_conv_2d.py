from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations import UnknownYet
from nnhal.operations._window import SAME, VALID
from nnhal.types import OperandType, OperationType
from tests.support.operations import Given, boolean, dimensions_of, integers, level_of, open_tensor, output, tensor

F32 = OperandType.TENSOR_FLOAT32
I32 = OperandType.TENSOR_INT32
TRANSPOSE = OperationType.TRANSPOSE_CONV_2D


def tensors(images: tuple[int, ...] = (1, 2, 3, 1)) -> list[Given]:
    return [open_tensor(F32, images), open_tensor(F32, (2, 3, 3, 1)), open_tensor(F32, (2,))]


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


@pytest.mark.parametrize(("shape", "scheme"), [((1, 5, 6, 2), SAME), ((1, 4, 7, 2), VALID), ((1, 0, 6, 2), SAME)])
def test_a_shape_that_no_window_takes_to_the_input_is_refused(shape: tuple[int, ...], scheme: int) -> None:
    with pytest.raises(HalError, match="an output of"):
        dimensions_of(TRANSPOSE, asking(tensor(I32, shape), scheme), output(F32))


def test_a_shape_that_is_not_known_yet_leaves_everything_open() -> None:
    with pytest.raises(UnknownYet):
        dimensions_of(TRANSPOSE, asking(open_tensor(I32, (4,)), SAME), output(F32))


def test_an_unknown_input_leaves_its_axes_open() -> None:
    inputs = [*tensors((0, 2, 0, 1)), *integers(0, 0, 0, 0, 2, 2, 0), boolean(False)]
    assert dimensions_of(TRANSPOSE, inputs, output(F32)) == ((0, 5, 0, 2),)
