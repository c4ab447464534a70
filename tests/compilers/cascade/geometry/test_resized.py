from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nnhal.arrays import Array
from nnhal.types import OperandType, OperationType
from nnhal_cascade.geometry.accesses import Windowed
from nnhal_cascade.geometry.box import Interval
from nnhal_cascade.geometry.resized import Resized
from tests.support.dependencies import dependencies, intervals
from tests.support.kernels import compute
from tests.support.operations import boolean, integers, output, tensor

F32 = OperandType.TENSOR_FLOAT32
LENGTHS = st.integers(1, 12)


def depends(access: Resized) -> Array:
    """Return [output, input], whether an element of the resized image changes with one of the image."""
    code = OperationType.RESIZE_NEAREST_NEIGHBOR if access.nearest else OperationType.RESIZE_BILINEAR
    flags = [boolean(flag) for flag in (False, access.align_corners, access.half_pixel_centers)]

    def resize(vectors: Array) -> Array:
        images = tensor(F32, vectors[:, :, None, None])
        (result,) = compute(code, [images, *integers(1, access.outputs), *flags], output(F32))
        return result[:, :, 0, 0]

    return dependencies(resize, access.length)


@given(length=LENGTHS, outputs=LENGTHS, align=st.booleans(), half=st.booleans())
def test_the_nearest_neighbours_are_needed(length: int, outputs: int, align: bool, half: bool) -> None:
    assume(not (align and half))
    access = Resized(length, outputs, True, align, half)
    for wanted, expected in intervals(depends(access)):
        assert access.needs(wanted) == expected


@given(length=LENGTHS, outputs=LENGTHS, align=st.booleans(), half=st.booleans())
def test_both_elements_beside_a_place_are_needed(length: int, outputs: int, align: bool, half: bool) -> None:
    assume(not (align and half))
    access = Resized(length, outputs, False, align, half)
    for wanted, expected in intervals(depends(access)):
        found = access.needs(wanted)
        assert found.start == expected.start
        assert expected.stop <= found.stop <= min(expected.stop + 1, length)


@given(length=LENGTHS, factor=st.integers(1, 3))
def test_resizing_to_a_multiple_is_an_upscale(length: int, factor: int) -> None:
    access = Resized(length, length * factor, nearest=True)
    for start in range(length * factor):
        wanted = Interval(start, length * factor)
        assert access.needs(wanted) == Windowed(length, upscale=factor).needs(wanted)


@pytest.mark.parametrize("wanted", [Interval(0, 0), Interval(3, 2), Interval(10, 12), Interval(-2, 0)])
def test_nothing_needs_nothing(wanted: Interval) -> None:
    assert Resized(5, 10).needs(wanted) == Interval(0, 0)
