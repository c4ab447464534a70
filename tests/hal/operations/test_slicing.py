from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations import UnknownYet
from nnhal.operations._types import F32, I32
from nnhal.types import OperationType
from tests.support.operations import dimensions_of, open_tensor, output, tensor

SLICE = OperationType.SLICE


def test_minus_1_takes_the_rest() -> None:
    inputs = [open_tensor(F32, (4, 5)), tensor(I32, [1, 5]), tensor(I32, [2, -1])]
    assert dimensions_of(SLICE, inputs, output(F32)) == ((2, 0),)


@pytest.mark.parametrize(("begin", "size"), [(-1, 2), (3, 2), (0, -2), (5, -1)])
def test_a_box_outside_the_tensor_is_refused(begin: int, size: int) -> None:
    inputs = [open_tensor(F32, (4, 5)), tensor(I32, [begin, 0]), tensor(I32, [size, 5])]
    with pytest.raises(HalError, match="on axis 0, expected a part of its 4 elements"):
        dimensions_of(SLICE, inputs, output(F32))


def test_each_axis_has_its_numbers() -> None:
    inputs = [open_tensor(F32, (4, 5)), tensor(I32, [0]), tensor(I32, [1, 1])]
    with pytest.raises(HalError, match="input 1 has 1 elements, expected 2"):
        dimensions_of(SLICE, inputs, output(F32))


def test_unknown_lengths_are_asked_again() -> None:
    with pytest.raises(UnknownYet):
        dimensions_of(SLICE, [open_tensor(F32, (0,)), tensor(I32, [0]), tensor(I32, [2])], output(F32))
