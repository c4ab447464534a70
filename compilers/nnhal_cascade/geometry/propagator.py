"""Propagators: which stripes of an input an operator needs for the stripes of its output, as an affine transform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np
import numpy.typing as npt

from nnhal_cascade.geometry.access import AffineRow, AxisAccess
from nnhal_cascade.geometry.stripe_config import StripeConfig


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
