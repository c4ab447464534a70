from __future__ import annotations

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.operations import DEFINITIONS
from nnhal.operations._types import F32, I32, INT32, Q8A
from nnhal.operations.joining import REST
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import Given, context, dimensions_of, integers, level_of, open_tensor, output, tensor

CONCATENATION = OperationType.CONCATENATION


def joined(axis: int, *tensors: Dimensions) -> Dimensions:
    inputs = [*(open_tensor(F32, dimensions) for dimensions in tensors), *integers(axis)]
    return dimensions_of(CONCATENATION, inputs, output(F32))[0]


def test_lengths_along_the_axis_add_up() -> None:
    assert joined(1, (2, 3), (2, 4), (2, 5)) == (2, 12)


def test_what_one_tensor_leaves_open_another_may_know() -> None:
    assert joined(1, (0, 3), (2, 4)) == (2, 7)
    assert joined(1, (2, 0), (2, 4)) == (2, 0)


@pytest.mark.parametrize(("axis", "second"), [(1, (3, 4)), (2, (2, 3)), (-1, (2, 3)), (0, (2, 3, 1))])
def test_tensors_that_do_not_join_are_refused(axis: int, second: Dimensions) -> None:
    with pytest.raises(HalError):
        joined(axis, (2, 3), second)


def test_an_empty_tensor_adds_nothing() -> None:
    inputs = [tensor(F32, np.zeros((0, 3))), tensor(F32, np.zeros((2, 3))), *integers(0)]
    op = context(CONCATENATION, inputs, [output(F32)], executing=True)
    assert DEFINITIONS[CONCATENATION].prepare(op) == ((2, 3),)


def test_other_quantisation_than_the_output_s_needs_level_3() -> None:
    out = output(Q8A, (4,), 0.5)
    same, other = open_tensor(Q8A, (2,), 0.5), open_tensor(Q8A, (2,), 0.25)
    assert level_of(CONCATENATION, [same, same, *integers(0)], out) == 1
    assert level_of(CONCATENATION, [same, other, *integers(0)], out) == 3


def test_a_tensor_and_an_axis_are_the_least() -> None:
    assert level_of(CONCATENATION, [open_tensor(F32, (2,)), *integers(0)], output(F32, (2,))) == 1
    with pytest.raises(HalError, match="at least 2"):
        level_of(CONCATENATION, integers(0), output(F32, (2,)))


PACK = OperationType.PACK


@pytest.mark.parametrize(("axis", "expected"), [(0, (2, 3, 4)), (1, (3, 2, 4)), (2, (3, 4, 2))])
def test_the_number_of_tensors_is_a_new_axis(axis: int, expected: Dimensions) -> None:
    inputs = [*integers(axis), open_tensor(F32, (3, 0)), open_tensor(F32, (0, 4))]
    assert level_of(PACK, inputs, output(F32, expected)) == 6
    assert dimensions_of(PACK, inputs, output(F32)) == (expected,)


@pytest.mark.parametrize("axis", [-1, 3])
def test_an_axis_outside_the_output_is_refused(axis: int) -> None:
    with pytest.raises(HalError, match=f"axis {axis}, expected 0 to 2"):
        dimensions_of(PACK, [*integers(axis), open_tensor(F32, (3, 4))], output(F32))


def test_tensors_differ_in_nothing() -> None:
    first = open_tensor(Q8A, (3,), 0.5, 1)
    for other, message in (
        (open_tensor(Q8A, (3,), 0.5, 2), "expected equal ones"),
        (open_tensor(Q8A, (3, 1), 0.5, 1), "input 2 has rank 2"),
        (open_tensor(F32, (3,)), "TENSOR_FLOAT32, expected TENSOR_QUANT8_ASYMM"),
    ):
        with pytest.raises(HalError, match=message):
            level_of(PACK, [*integers(0), first, other], output(Q8A, (2, 3), 0.5, 1))
    with pytest.raises(HalError, match="expected equal dimensions"):
        dimensions_of(PACK, [*integers(0), first, open_tensor(Q8A, (4,), 0.5, 1)], output(Q8A, (2, 3), 0.5, 1))
    with pytest.raises(HalError, match="got 1 inputs, expected 2"):
        level_of(PACK, integers(0), output(Q8A, (2, 3), 0.5, 1))


SPLIT = OperationType.SPLIT


def test_every_output_is_an_equal_part() -> None:
    inputs = [open_tensor(F32, (0, 6)), *integers(-1, 3)]
    assert level_of(SPLIT, inputs, *[output(F32, (2, 2))] * 3) == 3
    assert dimensions_of(SPLIT, inputs, *[output(F32)] * 3) == ((0, 2),) * 3


def test_the_number_of_outputs_is_compared_only_when_prepared() -> None:
    inputs = [open_tensor(F32, (2, 6)), *integers(1, 3)]
    assert level_of(SPLIT, inputs, *[output(F32, (2, 2))] * 2) == 3
    with pytest.raises(HalError, match="3 splits and 2 outputs"):
        dimensions_of(SPLIT, inputs, *[output(F32)] * 2)


def test_parts_that_are_not_equal_are_refused() -> None:
    with pytest.raises(HalError, match="axis 0 has 5 elements, expected a multiple of 2"):
        dimensions_of(SPLIT, [open_tensor(F32, (5,)), *integers(0, 2)], *[output(F32)] * 2)


def test_every_output_has_the_input_s_type_and_quantisation() -> None:
    inputs = [open_tensor(Q8A, (4,), 0.5), *integers(0, 2)]
    with pytest.raises(HalError, match=r"output 1 has scale 0.25"):
        dimensions_of(SPLIT, inputs, output(Q8A, (2,), 0.5), output(Q8A, (2,), 0.25))
    with pytest.raises(HalError, match="output 1 is INT32"):
        level_of(SPLIT, inputs, output(Q8A, (2,), 0.5), output(INT32))


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


@pytest.mark.parametrize(("begin", "size", "kept"), [(0, 2, 2), (3, REST, 0)])
def test_of_an_unknown_length_a_size_or_the_rest_is_kept(begin: int, size: int, kept: int) -> None:
    inputs = [open_tensor(F32, (0, 5)), tensor(I32, [begin, 1]), tensor(I32, [size, REST])]
    assert dimensions_of(SLICE, inputs, output(F32)) == ((kept, 4),)


def given(*axes: tuple[int, int, int], masks: tuple[int, int, int] = (0, 0, 0)) -> list[Given]:
    """Slice a tensor of five elements along each axis by begin, end and stride of each axis."""
    return [open_tensor(F32, (5,) * len(axes)), *(tensor(I32, v) for v in zip(*axes, strict=True)), *integers(*masks)]


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        ((0, 5, 2), 3),
        ((1, -1, 1), 3),
        ((-9, 9, 1), 5),
        ((9, 2, -2), 1),
        ((4, -6, -1), 5),
        ((-9, -9, -1), 0),
        ((3, 1, 1), 0),
    ],
)
def test_bounds_count_from_either_end_and_are_clamped(axis: tuple[int, int, int], expected: int) -> None:
    assert dimensions_of(OperationType.STRIDED_SLICE, given(axis), output(F32)) == ((expected,),)


@pytest.mark.parametrize(
    ("stride", "masks", "expected"),
    [(1, (1, 0, 0), (3,)), (1, (0, 1, 0), (3,)), (-1, (1, 0, 0), (1,)), (-1, (0, 1, 0), (3,))],
)
def test_masks_open_the_bounds(stride: int, masks: tuple[int, int, int], expected: Dimensions) -> None:
    bounds = (2, 3, stride)
    assert dimensions_of(OperationType.STRIDED_SLICE, given(bounds, masks=masks), output(F32)) == (expected,)


def test_shrunk_axes_disappear() -> None:
    axes = ((1, 2, 1), (0, 5, 1))
    assert dimensions_of(OperationType.STRIDED_SLICE, given(*axes, masks=(0, 0, 1)), output(F32)) == ((5,),)
    assert dimensions_of(OperationType.STRIDED_SLICE, given(axes[0], masks=(0, 0, 1)), output(F32)) == ((1,),)


@pytest.mark.parametrize("axis", [(1, 3, 1), (2, 1, -1), (1, 1, 1)])
def test_a_shrunk_axis_keeps_exactly_one_element(axis: tuple[int, int, int]) -> None:
    with pytest.raises(HalError, match="axis 0 is shrunk"):
        dimensions_of(OperationType.STRIDED_SLICE, given(axis, masks=(0, 0, 1)), output(F32))


def test_a_stride_of_0_is_refused() -> None:
    with pytest.raises(HalError, match="stride 0 on axis 0"):
        dimensions_of(OperationType.STRIDED_SLICE, given((0, 5, 0)), output(F32))
