"""Propagators: which stripes of an input an operator needs for the stripes of its output, as an affine transform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnhal_cascade.geometry.accesses import AffineRow, AxisAccess, window_row
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
