"""Propagators: which stripes of an input an operator needs for the stripes of its output, as an affine transform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np
import numpy.typing as npt

from benchmarks.cascade.published.stripes import StripeConfig
from nnhal_cascade.geometry.accesses import AffineRow, AxisAccess, window_row, zero_inserted_row


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
    def input_axes(self) -> int:
        """The input's rank."""
        return len(self.matrix) - 1

    @property
    def output_axes(self) -> int:
        """The output's rank."""
        return len(self.matrix[0]) - 1

    def propagate(self, config: StripeConfig) -> StripeConfig:
        """Return the stripes of the input. Raises ValueError if the configuration has another rank than the output.

        Nothing is cut off at the input's borders. As published, the configuration's own offset is passed on as it is,
        without the operator's stride: chain the propagators and propagate from the last output, which has none.
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

    def chain(self, other: Propagator) -> Propagator:
        """Return the propagator through this operator and then through ``other``, whose output is this one's input.

        It is the product of the matrices. If they are of integers this is exact; otherwise lengths are rounded up and
        starts down between the two operators, and the product has constants that are large enough for that. Raises
        ValueError if the ranks do not fit.
        """
        if self.input_axes != other.output_axes:
            raise ValueError(f"chain: got a propagator from rank {other.output_axes}; expected rank {self.input_axes}")
        near, far = np.array(self.matrix, np.float64), np.array(other.matrix, np.float64)
        product = far @ near
        weights = far[:-1, :-1]
        between = weights @ _rounding(near[:-1])
        start = weights @ self.offset + other.offset
        offset = np.floor(start - between)
        product[:-1, -1] += between + _rounding(far[:-1]) + (start - offset)
        return Propagator(tuple(map(tuple, product.tolist())), _integers(offset))


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


def _rounding(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return by how much, at most, rounding changes the sum of a row's multiples."""
    denominators = [lcm(*(Fraction(value).limit_denominator(1 << 12).denominator for value in row)) for row in rows]
    return np.array([1 - 1 / denominator for denominator in denominators])


def _integers(values: npt.NDArray[np.generic]) -> tuple[int, ...]:
    return tuple(int(value) for value in values.tolist())


Pair = tuple[int, int]

SCALE_BYTES = 10
"""Bytes of an output channel's scale and bias."""
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


def transpose_convolution(kernel: Pair, strides: Pair, padding: Pair, channels: int) -> Propagator:
    """Return that of a transpose convolution's input. ``padding`` is cut off before the first row and column."""
    height, width = zip(kernel, strides, padding, strict=True)
    return diagonal([_SAME, zero_inserted_row(*height), zero_inserted_row(*width), AffineRow(0, channels, 0)])


def upscale(factor: int) -> Propagator:
    """Return that of the input of a RESIZE_NEAREST_NEIGHBOR to ``factor`` times the height and width."""
    return diagonal([_SAME, window_row(upscale=factor), window_row(upscale=factor), _SAME])


def elementwise(given: Sequence[int], output: Sequence[int]) -> Propagator:
    """Return that of an operand of the shape ``given``: where it is broadcast to ``output``, one element is needed."""
    pairs = zip(given, output, strict=True)
    return diagonal([AffineRow(0, 1, 0) if extent == 1 and wide != 1 else _SAME for extent, wide in pairs])


def opaque(given: Sequence[int], output_axes: int) -> Propagator:
    """Return that of an input of the shape ``given`` that is always needed whole: of RESHAPE, for example."""
    return Propagator(_matrix([({}, extent) for extent in given], output_axes), (0,) * len(given))


def convolution_weights(kernel: Pair, channels: int) -> Propagator:
    """Return that of weights of [output channels, height, width, input channels]."""
    return Propagator(_matrix([({3: 1}, 0), ({}, kernel[0]), ({}, kernel[1]), ({}, channels)], 4), (0,) * 4)


def depthwise_weights(kernel: Pair) -> Propagator:
    """Return that of weights of [channels, height, width, 1]."""
    return convolution_weights(kernel, 1)


def scales() -> Propagator:
    """Return that of scales and biases of [output channels, bytes]."""
    return Propagator(_matrix([({3: 1}, 0), ({}, SCALE_BYTES)], 4), (0, 0))


def nhwc_to_nhcwb16() -> Propagator:
    """Return the change of layout from stripes in NHWC to stripes in [batch, height, bricks, width, 16]."""
    return Propagator(_matrix([({0: 1}, 0), ({1: 1}, 0), ({3: 1 / _BRICK}, 0), ({2: 1}, 0), ({}, _BRICK)], 4), (0,) * 5)


def nhcwb16_to_nhwc(channels: int) -> Propagator:
    """Return the change of layout back. The last brick of the tensor is full only if 16 divides ``channels``."""
    unused = -channels % _BRICK
    return Propagator(_matrix([({0: 1}, 0), ({1: 1}, 0), ({3: 1}, 0), ({2: _BRICK}, -unused)], 5), (0,) * 4)


def _matrix(rows: Sequence[tuple[dict[int, float], int]], output_axes: int) -> tuple[tuple[float, ...], ...]:
    """Return a matrix of rows that are coefficients, by the axis of the output, and a constant."""
    filled = [(*(row.get(axis, 0) for axis in range(output_axes)), constant) for row, constant in rows]
    return (*filled, (*(0,) * output_axes, 1))
