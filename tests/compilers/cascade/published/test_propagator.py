from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    window_row,
)
from nnhal_cascade.geometry.box import Interval
from tests.support.known_good import config_of, known_good, needs_known_good
from tests.support.published_cascader.stripes import StripeConfig


@dataclass(frozen=True)
class Propagator:
    """An affine transform from stripes of an output to stripes of an input. Raises ValueError if it is none.

    The source is the RFC of TVM's cascading planner. It computes with float32, and so does this.
    """

    matrix: tuple[tuple[float, ...], ...]
    """[axes of the input + 1, axes of the output + 1]: the last column has constants, the last row is 0, ..., 0, 1."""
    offset: tuple[int, ...]
    """For each axis of the input, the element at which its first stripe starts."""

    def __post_init__(self) -> None:
        columns = {len(row) for row in self.matrix}
        if len(columns) != 1 or len(self.matrix) != len(self.offset) + 1:
            raise ValueError(
                f"propagator: got rows of {sorted(columns)} columns, {len(self.matrix)} rows, and {len(self.offset)} "
                "offsets; expected rows of one length, and one row more than offsets"
            )
        if tuple(self.matrix[-1]) != (0,) * (len(self.matrix[-1]) - 1) + (1,):
            raise ValueError(f"propagator: the last row is {self.matrix[-1]}; expected 0, ..., 0, 1")

    @property
    def output_axes(self) -> int:
        """The output's rank."""
        return len(self.matrix[0]) - 1

    def propagate(self, config: StripeConfig) -> StripeConfig:
        """Return the stripes of the input. Raises ValueError if the configuration has another rank than the output.

        Nothing is cut off at the input's borders. As published, the configuration's own offset is passed on as it is,
        without the operator's stride.
        """
        if len(config.shape) != self.output_axes:
            raise ValueError(f"propagator: got stripes of rank {len(config.shape)}; expected {self.output_axes}")
        matrix = np.array(self.matrix[:-1], np.float32)
        loops = (matrix[:, :-1] != 0).astype(np.int64)
        return StripeConfig(
            shape=_integers(np.ceil(_transform(matrix, (*config.shape, 1)))),
            extent=_integers(np.ceil(_transform(matrix, (*config.extent, 1)))),
            strides=tuple(_transform(matrix, (*config.strides, 0)).tolist()),
            order=_integers(loops @ config.order),
            stripes=_integers(np.maximum(loops @ config.stripes, 1)),
            offset=_integers(loops @ config.offset + self.offset),
        )


def diagonal(rows: Sequence[AffineRow]) -> Propagator:
    """Return the propagator of an operator whose axes are independent: each of the input depends on the output's."""
    matrix = np.zeros((len(rows) + 1, len(rows) + 1))
    np.fill_diagonal(matrix, [*(row.coefficient for row in rows), 1])
    matrix[:-1, -1] = [row.constant for row in rows]
    return Propagator(tuple(map(tuple, matrix.tolist())), tuple(row.offset for row in rows))


def propagator_of(accesses: Sequence[AxisAccess]) -> Propagator:
    """Return the propagator of an operator's dependencies, one for each axis.

    It covers what ``AxisAccess.needs`` returns, and is larger at the borders of the input, if an axis is upscaled, and
    if the dependency is not affine.
    """
    return diagonal([_in_float32(access.affine()) for access in accesses])


def _in_float32(row: AffineRow) -> AffineRow:
    """Return a row with one element more if float32 rounds its coefficient, a third: a stripe may start early."""
    exact = float(np.float32(row.coefficient)) == row.coefficient
    return row if exact else row._replace(constant=row.constant + 1)


def _transform(matrix: npt.NDArray[np.float32], vector: Sequence[float]) -> npt.NDArray[np.float32]:
    """Multiply column by column: the order of the additions decides how float32 rounds."""
    total = np.zeros(len(matrix), np.float32)
    for column, value in zip(matrix.T, vector, strict=True):
        total += column * np.float32(value)
    return total


def _integers(values: npt.NDArray[np.generic]) -> tuple[int, ...]:
    return tuple(int(value) for value in values.tolist())


Pair = tuple[int, int]

_BRICK = 16
"""Channels that lie together in NHCWB16."""
_SAME = AffineRow(1, 0, 0)


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """A kernel over height and width."""

    kernel: Pair
    strides: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Pair = (0, 0)
    """Before the first row and the first column."""

    def rows(self) -> tuple[AffineRow, AffineRow]:
        """Return the rows of height and width."""
        height, width = zip(self.kernel, self.strides, self.dilation, self.padding, strict=True)
        return window_row(*height), window_row(*width)


def convolution(window: SlidingWindow, channels: int) -> Propagator:
    """Return that of a convolution's input with so many channels: every output needs all of them."""
    return diagonal([_SAME, *window.rows(), AffineRow(0, channels, 0)])


def depthwise(window: SlidingWindow) -> Propagator:
    """Return that of the input of a depthwise convolution, or of a pooling."""
    return diagonal([_SAME, *window.rows(), _SAME])


def convolution_weights(kernel: Pair, channels: int) -> Propagator:
    """Return that of weights of [output channels, height, width, input channels]."""
    return Propagator(_matrix([({3: 1}, 0), ({}, kernel[0]), ({}, kernel[1]), ({}, channels)], 4), (0,) * 4)


def depthwise_weights(kernel: Pair) -> Propagator:
    """Return that of weights of [channels, height, width, 1]."""
    return convolution_weights(kernel, 1)


def nhwc_to_nhcwb16() -> Propagator:
    """Return the change of layout from stripes in NHWC to stripes in [batch, height, bricks, width, 16]."""
    return Propagator(_matrix([({0: 1}, 0), ({1: 1}, 0), ({3: 1 / _BRICK}, 0), ({2: 1}, 0), ({}, _BRICK)], 4), (0,) * 5)


def _matrix(rows: Sequence[tuple[dict[int, float], int]], output_axes: int) -> tuple[tuple[float, ...], ...]:
    """Return a matrix of rows that are coefficients, by the axis of the output, and a constant."""
    filled = [(*(row.get(axis, 0) for axis in range(output_axes)), constant) for row, constant in rows]
    return (*filled, (*(0,) * output_axes, 1))


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


def test_a_ratio_that_float32_rounds_down_is_covered() -> None:
    access = Windowed(40, stride=5, upscale=6)
    assert uncovered(propagator_of([access]), [access], stripes(48, 1, 1)) == []


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
    plane = propagator_of([OneToOne(4), OneToOne(4)])
    with pytest.raises(ValueError, match="got stripes of rank 1; expected 2"):
        plane.propagate(stripes(4, 1, 1))


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


def test_a_depthwise_convolution_needs_the_same_channels() -> None:
    assert shape(depthwise(SlidingWindow((3, 5), (2, 1))), 1, 4, 6, 16) == (1, 9, 10, 16)
    assert shape(depthwise_weights((3, 5)), 1, 4, 6, 16) == (16, 3, 5, 1)


def test_channels_become_bricks() -> None:
    config = StripeConfig((1, 12, 14, 36), (1, 24, 18, 72), (1, 12, 14, 36), (1, 2, 3, 4), (1, 2, 2, 2), (0, 0, 0, 0))
    bricks = nhwc_to_nhcwb16().propagate(config)
    assert bricks == StripeConfig(
        (1, 12, 3, 14, 16), (1, 24, 5, 18, 16), (1, 12, 2.25, 14, 0), (1, 2, 4, 3, 0), (1, 2, 2, 2, 1), (0,) * 5
    )
