from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations._types import F32, I32
from nnhal.types import OperationType
from nnhal.types.layout import Dimensions
from tests.support.operations import Given, dimensions_of, integers, open_tensor, output, tensor


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
