from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations import DEFINITIONS, UnknownYet
from nnhal.operations._types import F32, I32
from nnhal.types import OperationType
from tests.support.operations import Given, absent, context, dimensions_of, level_of, open_tensor, output, tensor

SQUEEZE = OperationType.SQUEEZE
NO_AXES = absent(I32)


@pytest.mark.parametrize(
    ("axes", "expected"), [(NO_AXES, (3,)), (tensor(I32, [0]), (3, 1)), (tensor(I32, [-1, 2]), (1, 3))]
)
def test_axes_of_one_element_disappear(axes: Given, expected: tuple[int, ...]) -> None:
    inputs = [open_tensor(F32, (1, 3, 1)), axes]
    assert level_of(SQUEEZE, inputs, output(F32, expected)) == 2
    assert dimensions_of(SQUEEZE, inputs, output(F32)) == (expected,)


def test_one_axis_is_left() -> None:
    assert dimensions_of(SQUEEZE, [open_tensor(F32, (1, 1)), NO_AXES], output(F32)) == ((1,),)


def test_longer_axes_are_refused() -> None:
    with pytest.raises(HalError, match="axis 1 has 3 elements, expected 1"):
        dimensions_of(SQUEEZE, [open_tensor(F32, (1, 3)), tensor(I32, [1])], output(F32))


def test_an_unknown_length_is_accepted_until_it_is_known() -> None:
    assert dimensions_of(SQUEEZE, [open_tensor(F32, (0, 3)), tensor(I32, [0])], output(F32)) == ((3,),)
    with pytest.raises(UnknownYet):
        dimensions_of(SQUEEZE, [open_tensor(F32, (0, 3)), NO_AXES], output(F32))
    inputs = [tensor(F32, [[], []]), tensor(I32, [1])]
    with pytest.raises(HalError, match="axis 1 has 0 elements"):
        DEFINITIONS[SQUEEZE].prepare(context(SQUEEZE, inputs, [output(F32)], executing=True))
