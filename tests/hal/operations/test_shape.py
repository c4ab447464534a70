from __future__ import annotations

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.operations import DEFINITIONS, UnknownYet
from nnhal.operations._types import F32, I32, INT32, Q16S
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import (
    Given,
    absent,
    context,
    dimensions_of,
    integers,
    level_of,
    open_tensor,
    output,
    tensor,
)

RESHAPE = OperationType.RESHAPE


def reshaped(given: Dimensions, shape: Dimensions) -> Dimensions:
    inputs = [open_tensor(F32, given), tensor(OperandType.TENSOR_INT32, shape)]
    return dimensions_of(RESHAPE, inputs, output(F32))[0]


def test_one_dimension_may_be_computed() -> None:
    assert reshaped((2, 6), (3, -1)) == (3, 4)
    assert reshaped((2, 6), (12,)) == (12,)


def test_what_is_left_of_an_unknown_input_is_unknown() -> None:
    assert reshaped((0, 6), (3, -1)) == (3, 0)


@pytest.mark.parametrize("shape", [(-1, -1), (5, -1), (3, 5), (-2, 6)])
def test_shapes_that_do_not_fit_are_refused(shape: Dimensions) -> None:
    with pytest.raises(HalError, match="shape"):
        reshaped((2, 6), shape)


def test_an_empty_input_keeps_no_elements() -> None:
    inputs = [tensor(F32, np.zeros((0, 6))), tensor(OperandType.TENSOR_INT32, (-1, 3, 2))]
    op = context(RESHAPE, inputs, [output(F32)], executing=True)
    assert DEFINITIONS[RESHAPE].prepare(op) == ((0, 3, 2),)


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


@pytest.mark.parametrize(
    ("axis", "expected"), [(0, (1, 2, 0)), (2, (2, 0, 1)), (-1, (2, 0, 1)), (-2, (2, 1, 0)), (-3, (1, 2, 0))]
)
def test_the_axis_counts_in_the_output(axis: int, expected: Dimensions) -> None:
    inputs = [open_tensor(F32, (2, 0)), *integers(axis)]
    assert dimensions_of(OperationType.EXPAND_DIMS, inputs, output(F32)) == (expected,)


@pytest.mark.parametrize("axis", [3, -4])
def test_an_axis_outside_the_output_is_refused(axis: int) -> None:
    with pytest.raises(HalError, match=f"axis {axis}, expected -3 to 2"):
        dimensions_of(OperationType.EXPAND_DIMS, [open_tensor(F32, (2, 3)), *integers(axis)], output(F32))


def test_any_tensor_has_a_rank_which_is_a_scalar() -> None:
    inputs = [open_tensor(Q16S, (2, 3), 0.5)]
    assert level_of(OperationType.RANK, inputs, output(INT32)) == 4
    assert dimensions_of(OperationType.RANK, inputs, output(INT32)) == ((),)


def test_scalars_have_none_and_no_tensor_comes_out() -> None:
    with pytest.raises(HalError, match="INT32, expected TENSOR_BOOL8"):
        level_of(OperationType.RANK, [open_tensor(INT32, ())], output(INT32))
    with pytest.raises(HalError, match="TENSOR_INT32, expected INT32"):
        level_of(OperationType.RANK, [open_tensor(F32, (2,))], output(I32, (1,)))
