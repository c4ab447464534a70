from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.cascade.published.propagator import (
    Propagator,
    SlidingWindow,
    convolution,
    convolution_weights,
    depthwise,
    depthwise_weights,
    diagonal,
    elementwise,
    nhcwb16_to_nhwc,
    nhwc_to_nhcwb16,
    opaque,
    propagator_of,
    scales,
    transpose_convolution,
    upscale,
)
from benchmarks.cascade.published.stripes import StripeConfig
from nnhal_cascade.geometry.accesses import (
    AffineRow,
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
from tests.support.known_good import config_of, known_good, needs_known_good

SMALL = st.integers(1, 4)
INPUTS = st.integers(1, 40)
QUARTERS = st.integers(1, 9).map(lambda number: number / 4)
ROWS = st.builds(AffineRow, QUARTERS, QUARTERS, st.integers(-3, 3))


def windows(outputs: int) -> st.SearchStrategy[AxisAccess]:
    return st.builds(Windowed, INPUTS, SMALL, SMALL, SMALL, st.integers(-3, 4))


def upscaled(outputs: int) -> st.SearchStrategy[AxisAccess]:
    return st.builds(Windowed, INPUTS, SMALL, SMALL, SMALL, st.integers(-3, 4), SMALL)


def zero_inserted(outputs: int) -> st.SearchStrategy[AxisAccess]:
    return st.builds(ZeroInserted, INPUTS, SMALL, SMALL, st.integers(0, 3))


def resized(outputs: int) -> st.SearchStrategy[AxisAccess]:
    return st.builds(Resized, INPUTS, st.just(outputs), st.booleans(), st.booleans(), st.booleans())


def grouped(outputs: int) -> st.SearchStrategy[AxisAccess]:
    return st.builds(Grouped, INPUTS, SMALL, SMALL)


def others(outputs: int) -> st.SearchStrategy[AxisAccess]:
    shifted = st.builds(Shifted, INPUTS, st.integers(-9, 9))
    return st.one_of(st.builds(OneToOne, st.just(outputs)), st.builds(Everything, INPUTS), st.just(Single()), shifted)


KINDS = [windows, upscaled, zero_inserted, resized, grouped, others]
"""Strategies for the accesses of an output of some elements."""


def stripes(extent: int, stride: int, shape: int) -> StripeConfig:
    """Return stripes along one axis from its first element on."""
    return StripeConfig((shape,), (extent,), (stride,), (1,), (-(-extent // stride),), (0,))


def uncovered(propagator: Propagator, chain: Sequence[AxisAccess], config: StripeConfig) -> list[Interval]:
    """Return the output's stripes that need elements outside of the input's stripes."""
    given, found = propagator.propagate(config), []
    for number in range(config.stripes[0]):
        stripe = config.stripe(0, number)
        wanted = Interval(stripe.start, min(stripe.stop, config.extent[0]))
        needed = wanted
        for access in chain:
            needed = access.needs(needed)
        # What needs the same elements for all stripes is not striped.
        covered = given.stripe(0, number if given.stripes[0] > 1 else 0)
        if needed.length and not covered.start <= needed.start < needed.stop <= covered.stop:
            found.append(wanted)
    return found


@needs_known_good
def test_stripes_are_propagated_as_is_known() -> None:
    cases = known_good("propagate")
    wrong = [
        case
        for case in cases
        if Propagator(tuple(map(tuple, case["matrix"])), tuple(case["offset"])).propagate(config_of(case["out"]))
        != config_of(case["ifm"])
    ]
    assert wrong == []


def test_a_scale_is_rounded_up() -> None:
    half = Propagator(((0.5, 0, 0), (0, 0.5, 0), (0, 0, 1)), (0, 0))
    config = StripeConfig((3, 5), (27, 50), (3, 5), (1, 2), (9, 10), (0, 0))
    assert half.propagate(config) == StripeConfig((2, 3), (14, 25), (1.5, 2.5), (1, 2), (9, 10), (0, 0))


def test_a_constant_axis_has_one_stripe_and_no_loop() -> None:
    window = Propagator(((2, 0, 0, 4), (0, 1, 0, 2), (0, 0, 0, 8), (0, 0, 0, 1)), (-2, -1, 0))
    config = StripeConfig((4, 6, 32), (48, 60, 64), (4, 6, 32), (1, 2, 3), (12, 10, 2), (0, 0, 0))
    assert window.propagate(config) == StripeConfig(
        (12, 8, 8), (100, 62, 8), (8, 6, 0), (1, 2, 0), (12, 10, 1), (-2, -1, 0)
    )


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), outputs=INPUTS, stride=SMALL, shape=SMALL)
def test_the_input_of_a_stripe_has_all_that_the_stripe_needs(
    kind: Callable[[int], st.SearchStrategy[AxisAccess]], data: st.DataObject, outputs: int, stride: int, shape: int
) -> None:
    access = data.draw(kind(outputs))
    assert uncovered(propagator_of([access]), [access], stripes(outputs, stride, shape)) == []


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("last", KINDS)
@settings(max_examples=30)
@given(data=st.data(), outputs=INPUTS, stride=SMALL, shape=SMALL)
def test_a_chain_has_all_that_a_stripe_needs_of_the_first_input(
    last: Callable[[int], st.SearchStrategy[AxisAccess]],
    first: Callable[[int], st.SearchStrategy[AxisAccess]],
    data: st.DataObject,
    outputs: int,
    stride: int,
    shape: int,
) -> None:
    near = data.draw(last(outputs))
    far = data.draw(first(getattr(near, "length", 1)))
    chained = propagator_of([near]).chain(propagator_of([far]))
    assert uncovered(chained, [near, far], stripes(outputs, stride, shape)) == []


def test_a_ratio_that_float32_rounds_down_is_covered() -> None:
    access = Windowed(40, stride=5, upscale=6)
    assert uncovered(propagator_of([access]), [access], stripes(48, 1, 1)) == []


@given(kernels=st.lists(st.tuples(SMALL, SMALL, st.integers(0, 2)), min_size=2, max_size=4), shape=st.integers(1, 9))
def test_a_chain_of_windows_is_exact(kernels: list[tuple[int, int, int]], shape: int) -> None:
    inside = Interval(1000, 1000 + shape)
    needed = inside
    chained = propagator_of([OneToOne(10**6)])
    for kernel, stride, before in kernels:
        access = Windowed(10**6, kernel, stride, before=before)
        needed, chained = access.needs(needed), chained.chain(propagator_of([access]))
    assert chained.propagate(stripes(10**4, 1, shape)).stripe(0, inside.start) == needed


@settings(max_examples=1000)
@given(rows=st.lists(ROWS, min_size=2, max_size=2), start=st.integers(0, 40), shape=SMALL)
def test_a_chain_covers_what_two_steps_give(rows: list[AffineRow], start: int, shape: int) -> None:
    given, (near, far) = Interval(start, start + shape), rows
    for row in rows:
        first = row.offset + floor(row.coefficient * given.start)
        given = Interval(first, first + ceil(row.coefficient * given.length + row.constant))
    found = diagonal([near]).chain(diagonal([far])).propagate(stripes(50, 1, shape)).stripe(0, start)
    assert found.start <= given.start < given.stop <= found.stop


def test_two_convolutions_of_the_rfc_need_seven_rows_for_three() -> None:
    convolution = propagator_of([Windowed(34, 3), Windowed(34, 3), Everything(8)])
    config = StripeConfig((3, 3, 4), (30, 30, 4), (3, 3, 4), (1, 2, 3), (10, 10, 1), (0, 0, 0))
    assert convolution.chain(convolution).propagate(config).shape == (7, 7, 8)


@pytest.mark.parametrize(
    ("matrix", "offset", "said"),
    [
        (((1, 0), (0, 1, 0)), (0,), "expected rows of one length"),
        (((1, 0), (0, 1)), (0, 0), "got rows of .* 2 rows, and 2 offsets; .* one row more than offsets"),
        (((1, 0), (1, 1)), (0,), r"the last row is \(1, 1\); expected 0, \.\.\., 0, 1"),
    ],
)
def test_what_is_no_affine_transform_is_refused(
    matrix: tuple[tuple[float, ...], ...], offset: tuple[int, ...], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        Propagator(matrix, offset)


def test_other_ranks_are_refused() -> None:
    plane, line = propagator_of([OneToOne(4), OneToOne(4)]), propagator_of([OneToOne(4)])
    with pytest.raises(ValueError, match="got stripes of rank 1; expected 2"):
        plane.propagate(stripes(4, 1, 1))
    with pytest.raises(ValueError, match="got a propagator from rank 2; expected rank 1"):
        line.chain(plane)


def stripes_of(*shape: int) -> StripeConfig:
    """Return the stripes_of of a tensor of [1, 24, 30, 48]."""
    counts = tuple(-(-extent // length) for extent, length in zip((1, 24, 30, 48), shape, strict=True))
    return StripeConfig(shape, (1, 24, 30, 48), shape, (1, 2, 3, 4), counts, (0, 0, 0, 0))


def shape(propagator: Propagator, *wanted: int) -> tuple[int, ...]:
    return propagator.propagate(stripes_of(*wanted)).shape


@needs_known_good
def test_windows_and_layouts_have_the_matrices_that_are_known() -> None:
    seen = set()
    for case in known_good("propagate"):
        if "kernel" in case:
            window = SlidingWindow(*(tuple(case[name]) for name in ("kernel", "stride", "dilation", "pad")))
            out, kernel = config_of(case["out"]), tuple(case["kernel"])
            channels = case["weights_shape"][3]
            ours = convolution(window, channels) if case["op"] == "conv" else depthwise(window)
            weights = convolution_weights(kernel, channels) if case["op"] == "conv" else depthwise_weights(kernel)
            assert weights.propagate(out).shape == tuple(case["weights_shape"])
        elif case["op"] == "nhwc_to_nhcwb16":
            ours = nhwc_to_nhcwb16()
        else:
            continue
        seen.add(case["op"])
        assert (ours.matrix, ours.offset) == (tuple(map(tuple, case["matrix"])), tuple(case["offset"]))
    assert seen


def test_a_convolution_needs_its_kernel_more_and_all_channels() -> None:
    assert shape(convolution(SlidingWindow((3, 3)), 8), 1, 3, 3, 4) == (1, 5, 5, 8)
    assert shape(convolution_weights((3, 3), 8), 1, 3, 3, 4) == (4, 3, 3, 8)
    assert shape(scales(), 1, 3, 3, 4) == (4, 10)


def test_a_depthwise_convolution_needs_the_same_channels() -> None:
    assert shape(depthwise(SlidingWindow((3, 5), (2, 1))), 1, 4, 6, 16) == (1, 9, 10, 16)
    assert shape(depthwise_weights((3, 5)), 1, 4, 6, 16) == (16, 3, 5, 1)


def test_a_broadcast_operand_is_needed_whole() -> None:
    operand = elementwise((1, 1, 30, 1), (1, 24, 30, 48)).propagate(stripes_of(1, 4, 6, 16))
    assert (operand.shape, operand.stripes) == ((1, 1, 6, 1), (1, 1, 5, 1))


def test_what_is_opaque_is_needed_whole() -> None:
    given = opaque((1, 34560), 4).propagate(stripes_of(1, 4, 6, 16))
    assert (given.shape, given.stripes, given.order) == ((1, 34560), (1, 1), (0, 0))


def test_channels_become_bricks_and_come_back() -> None:
    config = StripeConfig((1, 12, 14, 36), (1, 24, 18, 72), (1, 12, 14, 36), (1, 2, 3, 4), (1, 2, 2, 2), (0, 0, 0, 0))
    bricks = nhwc_to_nhcwb16().propagate(config)
    assert bricks == StripeConfig(
        (1, 12, 3, 14, 16), (1, 24, 5, 18, 16), (1, 12, 2.25, 14, 0), (1, 2, 4, 3, 0), (1, 2, 2, 2, 1), (0,) * 5
    )
    assert nhcwb16_to_nhwc(72).propagate(bricks).extent == (1, 24, 18, 72)
    assert nhcwb16_to_nhwc(80).propagate(bricks).extent == (1, 24, 18, 80)


@pytest.mark.parametrize(("rows", "expected"), [(1, 1), (2, 2), (3, 2), (4, 3)])
def test_twice_the_size_needs_half_of_it_and_the_row_in_which_it_starts(rows: int, expected: int) -> None:
    assert shape(upscale(2), 1, rows, rows, 4) == (1, expected, expected, 4)


def test_a_transpose_convolution_needs_few_rows_and_all_channels() -> None:
    given = transpose_convolution((3, 4), (2, 2), (1, 1), 8).propagate(stripes_of(1, 4, 4, 16))
    assert (given.shape, given.strides, given.offset) == ((1, 3, 4, 8), (1, 2, 2, 0), (0, 0, -1, 0))
