from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nnhal.arrays import Array
from nnhal.types import OperandType, OperationType
from nnhal_cascade.geometry.accesses import (
    AxisAccess,
    Everything,
    Grouped,
    OneToOne,
    Resized,
    Shifted,
    Single,
    Windowed,
    ZeroInserted,
)
from nnhal_cascade.geometry.box import Interval
from tests.support.kernels import compute
from tests.support.operations import Given, boolean, integers, output, scalar, tensor

Operator = Callable[[Array], Array]
"""From vectors [batch, input] to vectors [batch, output]."""


def dependencies(operator: Operator, length: int) -> Array:
    """Return [output, input], whether an element of the output changes with one of the input."""
    given = np.random.default_rng(length).uniform(1, 2, length).astype(np.float32)
    perturbed = given + 7 * np.eye(length, dtype=np.float32)
    results = operator(np.vstack([given, perturbed]))
    changed: Array = (results[1:] != results[0]).T
    return changed


def intervals(depends: Array) -> Iterator[tuple[Interval, Interval]]:
    """Yield each interval of the output with the least interval of the input that has all on which it depends."""
    outputs = len(depends)
    for start in range(outputs):
        for stop in range(start + 1, outputs + 1):
            (found,) = np.nonzero(depends[start:stop].any(axis=0))
            yield Interval(start, stop), Interval(int(found[0]), int(found[-1]) + 1) if found.size else Interval(0, 0)


F32 = OperandType.TENSOR_FLOAT32
I32 = OperandType.TENSOR_INT32
KERNELS, LENGTHS, PADDINGS = st.integers(1, 4), st.integers(1, 9), st.integers(0, 4)
RNG = np.random.default_rng(5)


def rows(code: OperationType, more: Sequence[Given], vectors: Array) -> Array:
    """Run an operation on images of one column and one channel."""
    (result,) = compute(code, [tensor(F32, vectors[:, :, None, None]), *more], output(F32))
    return result[:, :, 0, 0]


def channels(code: OperationType, more: Sequence[Given], vectors: Array) -> Array:
    """Run an operation on images of one pixel."""
    (result,) = compute(code, [tensor(F32, vectors[:, None, None, :]), *more], output(F32))
    return result[:, 0, 0, :]


def filters(*shape: int) -> list[Given]:
    """Return filters that leave no element out, and biases for their first axis, or for the last if that is 1."""
    outputs = shape[0] if shape[0] != 1 else shape[-1]
    return [tensor(F32, RNG.uniform(0.5, 1, shape)), tensor(F32, np.zeros(outputs))]


def check(access: AxisAccess, operator: Operator, length: int) -> None:
    """Require the least interval of the input, for each interval of the output."""
    depends = dependencies(operator, length)
    assume(len(depends))
    for wanted, expected in intervals(depends):
        assert access.needs(wanted) == expected, f"for {wanted} of {len(depends)} outputs"


@given(length=LENGTHS, kernel=KERNELS, stride=KERNELS, dilation=st.integers(1, 3), before=PADDINGS, after=PADDINGS)
def test_a_convolution_needs_the_taps_that_lie_in_its_input(
    length: int, kernel: int, stride: int, dilation: int, before: int, after: int
) -> None:
    assume(length + before + after > (kernel - 1) * dilation)
    more = [*integers(0, 0, before, after, 1, stride, 0), boolean(False), *integers(1, dilation)]
    operator = partial(rows, OperationType.CONV_2D, [*filters(1, kernel, 1, 1), *more])
    check(Windowed(length, kernel, stride, dilation, before), operator, length)


@pytest.mark.parametrize("code", [OperationType.MAX_POOL_2D, OperationType.AVERAGE_POOL_2D])
@given(length=LENGTHS, kernel=KERNELS, stride=KERNELS, padding=st.integers(0, 2))
def test_a_pooling_needs_its_windows(code: OperationType, length: int, kernel: int, stride: int, padding: int) -> None:
    assume(padding < kernel <= length + 2 * padding)
    operator = partial(rows, code, integers(0, 0, padding, padding, 1, stride, 1, kernel, 0))
    check(Windowed(length, kernel, stride, before=padding), operator, length)


@given(length=LENGTHS, factor=st.integers(1, 3))
def test_an_axis_that_is_repeated_needs_what_it_copies(length: int, factor: int) -> None:
    operator = partial(rows, OperationType.RESIZE_NEAREST_NEIGHBOR, [*integers(1, length * factor), boolean(False)])
    check(Windowed(length, upscale=factor), operator, length)


@given(
    length=LENGTHS,
    kernel=KERNELS,
    stride=KERNELS,
    dilation=st.integers(1, 2),
    before=PADDINGS,
    factor=st.integers(2, 3),
)
def test_a_convolution_of_an_upscaled_input_needs_what_its_taps_are_copies_of(
    length: int, kernel: int, stride: int, dilation: int, before: int, factor: int
) -> None:
    assume(length * factor + before > (kernel - 1) * dilation)
    more = [*integers(0, 0, before, 0, 1, stride, 0), boolean(False), *integers(1, dilation)]
    convolution = partial(rows, OperationType.CONV_2D, [*filters(1, kernel, 1, 1), *more])
    access = Windowed(length, kernel, stride, dilation, before, factor)
    check(access, lambda vectors: convolution(vectors.repeat(factor, axis=1)), length)


@given(length=LENGTHS, kernel=KERNELS, stride=KERNELS, before=st.integers(0, 3), after=st.integers(0, 3))
def test_a_transpose_convolution_needs_what_adds_to_its_output(
    length: int, kernel: int, stride: int, before: int, after: int
) -> None:
    assume((length - 1) * stride + kernel > before + after)
    more = [*integers(0, 0, before, after, 1, stride, 0), boolean(False)]
    operator = partial(rows, OperationType.TRANSPOSE_CONV_2D, [*filters(1, kernel, 1, 1), *more])
    check(ZeroInserted(length, kernel, stride, before), operator, length)


@given(length=LENGTHS, multiplier=st.integers(1, 3))
def test_a_multiplied_channel_needs_the_one_that_it_comes_from(length: int, multiplier: int) -> None:
    more = [*filters(1, 1, 1, length * multiplier), *integers(0, 0, 0, 0, 1, 1, multiplier, 0)]
    operator = partial(channels, OperationType.DEPTHWISE_CONV_2D, more)
    check(Grouped(length, 1, multiplier), operator, length)
    check(Windowed(length, upscale=multiplier), operator, length)


@given(groups=st.integers(1, 3), inputs=st.integers(1, 3), outputs=st.integers(1, 3))
def test_a_channel_of_a_group_needs_its_group(groups: int, inputs: int, outputs: int) -> None:
    # One channel of the output would have as many biases as the last axis of its filter.
    assume(groups * outputs > 1)
    more = [*filters(groups * outputs, 1, 1, inputs), *integers(0, 0, 0, 0, 1, 1, groups, 0), boolean(False)]
    operator = partial(channels, OperationType.GROUPED_CONV_2D, more)
    check(Grouped(groups * inputs, inputs, outputs), operator, groups * inputs)


@given(length=LENGTHS, begin=st.integers(0, 8), size=LENGTHS)
def test_a_slice_needs_the_elements_that_it_takes(length: int, begin: int, size: int) -> None:
    assume(begin + size <= length)
    more = [tensor(I32, [0, begin, 0, 0]), tensor(I32, [-1, size, -1, -1])]
    check(Shifted(length, -begin), partial(rows, OperationType.SLICE, more), length)


@given(length=LENGTHS, begin=st.integers(0, 8), stride=KERNELS)
def test_a_slice_with_a_stride_needs_the_elements_that_it_takes(length: int, begin: int, stride: int) -> None:
    assume(begin < length)
    ranges = [tensor(I32, values) for values in ([0, begin, 0, 0], [0, length, 1, 1], [1, stride, 1, 1])]
    operator = partial(rows, OperationType.STRIDED_SLICE, [*ranges, *integers(0b0001, 0b0001, 0)])
    check(Windowed(length, stride=stride, before=-begin), operator, length)


@given(length=LENGTHS, before=PADDINGS, after=PADDINGS)
def test_what_is_padded_is_needed_only_inside(length: int, before: int, after: int) -> None:
    paddings = tensor(I32, [[0, 0], [before, after], [0, 0], [0, 0]])
    check(Shifted(length, before), partial(rows, OperationType.PAD, [paddings]), length)


@given(length=LENGTHS, before=LENGTHS, after=LENGTHS)
def test_a_part_of_a_concatenation_is_needed_only_for_itself(length: int, before: int, after: int) -> None:
    def operator(vectors: Array) -> Array:
        others = [np.ones((len(vectors), extent, 1, 1)) for extent in (before, after)]
        parts = [tensor(F32, others[0]), tensor(F32, vectors[:, :, None, None]), tensor(F32, others[1])]
        (result,) = compute(OperationType.CONCATENATION, [*parts, *integers(1)], output(F32))
        return result[:, :, 0, 0]

    check(Shifted(length, before), operator, length)


@given(length=LENGTHS)
def test_an_elementwise_operation_needs_the_same_elements(length: int) -> None:
    check(OneToOne(length), partial(rows, OperationType.RELU, []), length)


@given(wide=LENGTHS)
def test_what_is_broadcast_is_needed_always(wide: int) -> None:
    more = [tensor(F32, np.ones((1, wide, 1, 1))), *integers(0)]
    check(Single(), partial(rows, OperationType.ADD, more), 1)


@given(length=LENGTHS)
def test_a_reduction_needs_everything(length: int) -> None:
    check(Everything(length), partial(rows, OperationType.MEAN, [tensor(I32, [1]), *integers(1)]), length)


@given(length=st.integers(2, 9))
def test_a_softmax_needs_everything(length: int) -> None:
    check(Everything(length), partial(channels, OperationType.SOFTMAX, [scalar(OperandType.FLOAT32, 0.1)]), length)


ACCESSES = [
    OneToOne(5),
    Everything(5),
    Single(),
    Shifted(5, 2),
    Windowed(5, 3, before=1),
    ZeroInserted(5, 3, 2),
    Grouped(6, 3, 2),
]


@pytest.mark.parametrize("access", ACCESSES, ids=lambda access: type(access).__name__)
@pytest.mark.parametrize("wanted", [Interval(0, 0), Interval(3, 3), Interval(4, 2)])
def test_nothing_needs_nothing(access: AxisAccess, wanted: Interval) -> None:
    assert access.needs(wanted) == Interval(0, 0)


@pytest.mark.parametrize("access", ACCESSES, ids=lambda access: type(access).__name__)
@given(start=st.integers(-20, 20), length=st.integers(0, 30))
def test_whatever_is_wanted_the_interval_lies_in_the_input(access: AxisAccess, start: int, length: int) -> None:
    first, stop = access.needs(Interval(start, start + length))
    assert 0 <= first <= stop <= getattr(access, "length", 1)


def test_twice_the_size_needs_a_row_more_if_a_stripe_starts_between_two_copies() -> None:
    access = Windowed(8, upscale=2)
    assert [access.needs(Interval(start, start + 4)) for start in (4, 5)] == [Interval(2, 4), Interval(2, 5)]


def test_the_rows_of_a_transpose_convolution() -> None:
    access = ZeroInserted(8, kernel=3, stride=2)
    assert [access.needs(Interval(row, row + 1)) for row in (0, 1, 2, 3)] == [(0, 1), (0, 1), (0, 2), (1, 2)]
    assert access.needs(Interval(4, 8)) == (1, 4)


_RESIZED_LENGTHS = st.integers(1, 12)


def depends(access: Resized) -> Array:
    """Return [output, input], whether an element of the resized image changes with one of the image."""
    code = OperationType.RESIZE_NEAREST_NEIGHBOR if access.nearest else OperationType.RESIZE_BILINEAR
    flags = [boolean(flag) for flag in (False, access.align_corners, access.half_pixel_centers)]

    def resize(vectors: Array) -> Array:
        images = tensor(F32, vectors[:, :, None, None])
        (result,) = compute(code, [images, *integers(1, access.outputs), *flags], output(F32))
        return result[:, :, 0, 0]

    return dependencies(resize, access.length)


@given(length=_RESIZED_LENGTHS, outputs=_RESIZED_LENGTHS, align=st.booleans(), half=st.booleans())
def test_the_nearest_neighbours_are_needed(length: int, outputs: int, align: bool, half: bool) -> None:
    assume(not (align and half))
    access = Resized(length, outputs, True, align, half)
    for wanted, expected in intervals(depends(access)):
        assert access.needs(wanted) == expected


@given(length=_RESIZED_LENGTHS, outputs=_RESIZED_LENGTHS, align=st.booleans(), half=st.booleans())
def test_both_elements_beside_a_place_are_needed(length: int, outputs: int, align: bool, half: bool) -> None:
    assume(not (align and half))
    access = Resized(length, outputs, False, align, half)
    for wanted, expected in intervals(depends(access)):
        found = access.needs(wanted)
        assert found.start == expected.start
        assert expected.stop <= found.stop <= min(expected.stop + 1, length)


@given(length=_RESIZED_LENGTHS, factor=st.integers(1, 3))
def test_resizing_to_a_multiple_is_an_upscale(length: int, factor: int) -> None:
    access = Resized(length, length * factor, nearest=True)
    for start in range(length * factor):
        wanted = Interval(start, length * factor)
        assert access.needs(wanted) == Windowed(length, upscale=factor).needs(wanted)


@pytest.mark.parametrize("wanted", [Interval(0, 0), Interval(3, 2), Interval(10, 12), Interval(-2, 0)])
def test_nothing_of_a_resized_axis_needs_nothing(wanted: Interval) -> None:
    assert Resized(5, 10).needs(wanted) == Interval(0, 0)
