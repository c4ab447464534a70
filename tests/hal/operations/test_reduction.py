from __future__ import annotations

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.operations import DEFINITIONS, UnknownYet
from nnhal.operations._types import B8, F32, I32, Q8A, Q8AS
from nnhal.types import OperandType, OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import boolean, context, dimensions_of, integers, level_of, open_tensor, output, tensor

SUM = OperationType.REDUCE_SUM


@pytest.mark.parametrize(
    ("axes", "keep", "expected"),
    [
        ([1], False, (2, 0)),
        ([-2, 1], True, (2, 1, 0)),
        ([0, 1, -1], False, (1,)),
        ([0, 1, 2], True, (1, 1, 1)),
    ],
)
def test_axes_disappear_or_become_1(axes: list[int], keep: bool, expected: Dimensions) -> None:
    assert dimensions_of(SUM, [open_tensor(F32, (2, 3, 0)), tensor(I32, axes), boolean(keep)], output(F32)) == (
        expected,
    )


def test_an_axis_outside_the_tensor_is_refused() -> None:
    with pytest.raises(HalError, match=r"axis -4, expected -3 to 2"):
        dimensions_of(SUM, [open_tensor(F32, (2, 3, 4)), tensor(I32, [-4]), boolean(False)], output(F32))


def test_axes_that_are_no_constant_are_asked_again() -> None:
    with pytest.raises(UnknownYet):
        dimensions_of(SUM, [open_tensor(F32, (2, 3)), open_tensor(I32, (1,)), boolean(False)], output(F32))


def test_types_follow_the_function() -> None:
    def level(code: OperationType, main: OperandType, scale: float = 0.0) -> int:
        inputs = [open_tensor(main, (2, 3), scale), tensor(I32, [0]), boolean(False)]
        return level_of(code, inputs, output(main, (3,), scale))

    assert level(OperationType.REDUCE_ALL, B8) == 3
    assert level(OperationType.REDUCE_MAX, Q8AS, 0.5) == 4
    for code, main, scale in ((SUM, Q8A, 0.5), (OperationType.REDUCE_ANY, F32, 0.0)):
        with pytest.raises(HalError, match="expected"):
            level(code, main, scale)


def test_the_output_keeps_the_quantisation() -> None:
    inputs = [open_tensor(Q8A, (2, 3), 0.5, 9), tensor(I32, [0]), boolean(False)]
    with pytest.raises(HalError, match=r"zero point 8, expected 0.5 and 9"):
        dimensions_of(OperationType.REDUCE_MAX, inputs, output(Q8A, scale=0.5, zero_point=8))


MEAN = OperationType.MEAN


@pytest.mark.parametrize(
    ("axes", "keep", "expected"),
    [
        ((1,), 0, (2, 0)),
        ((-2, 1), 5, (2, 1, 0)),
        ((1,), -1, (2, 0)),
        ((), 0, (2, 3, 0)),
        ((0, 1, 2), 0, (1,)),
        ((0, 1, 2), 1, (1, 1, 1)),
    ],
)
def test_axes_disappear_unless_they_are_kept(axes: Dimensions, keep: int, expected: Dimensions) -> None:
    inputs = [open_tensor(F32, (2, 3, 0)), tensor(I32, np.array(axes, np.int32)), *integers(keep)]
    assert dimensions_of(MEAN, inputs, output(F32)) == (expected,)


def test_an_axis_out_of_range_is_refused() -> None:
    with pytest.raises(HalError, match="axis 3"):
        dimensions_of(MEAN, [open_tensor(F32, (2, 3, 4)), tensor(I32, [3]), *integers(0)], output(F32))


@pytest.mark.parametrize(
    ("dimensions", "axis", "expected"), [((2, 0, 4), -1, (2, 0)), ((2, 0, 4), 0, (0, 4)), ((5,), 0, (1,))]
)
def test_the_axis_disappears(dimensions: Dimensions, axis: int, expected: Dimensions) -> None:
    inputs = [open_tensor(Q8AS, dimensions, 0.5), *integers(axis)]
    assert level_of(OperationType.ARGMAX, inputs, output(I32, expected)) == 4
    assert dimensions_of(OperationType.ARGMAX, inputs, output(I32)) == (expected,)


def test_no_elements_have_no_extremum() -> None:
    inputs = [tensor(F32, [[], []]), *integers(1)]
    with pytest.raises(HalError, match="axis 1 has no elements"):
        DEFINITIONS[OperationType.ARGMIN].prepare(context(OperationType.ARGMIN, inputs, [output(I32)], executing=True))


TOPK = OperationType.TOPK_V2


def test_both_outputs_have_k_elements_along_the_last_axis() -> None:
    inputs = [open_tensor(F32, (2, 0)), *integers(3)]
    assert dimensions_of(TOPK, inputs, output(F32), output(I32)) == ((2, 3), (2, 3))


@pytest.mark.parametrize("k", [0, -1, 5])
def test_k_lies_within_the_axis(k: int) -> None:
    with pytest.raises(HalError, match=f"k is {k}"):
        dimensions_of(TOPK, [open_tensor(F32, (2, 4)), *integers(k)], output(F32), output(I32))


def test_values_keep_the_quantisation() -> None:
    with pytest.raises(HalError, match=r"output 0 has scale 0.25"):
        dimensions_of(TOPK, [open_tensor(Q8A, (4,), 0.5), *integers(1)], output(Q8A, scale=0.25), output(I32))
