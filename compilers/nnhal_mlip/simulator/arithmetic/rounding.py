"""From sums to the values of the output type: the table and range of the activation, and one rounding."""

from __future__ import annotations

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.program.program import UNCLIPPED, TaskRange
from nnhal_mlip.program.tables import NO_TABLE, looked_up


def half_away(values: Array) -> Array:
    """Round to integers, halves away from zero. The type stays."""
    whole = np.trunc(values)
    # The difference is exact, while adding 0.5 would round numbers just below a half up.
    away: Array = np.copysign(np.abs(values - whole) >= 0.5, values)
    return whole + away


def rounded(values: Array, dtype: np.dtype[np.generic]) -> Array:
    """Convert real values to a type once: floats to the nearest, integers with halves away from zero and clamped."""
    if dtype.kind == "f":
        return values.astype(dtype)
    limits = np.iinfo(dtype.name)
    return half_away(np.clip(values, limits.min, limits.max)).astype(dtype)


def finished(values: Array, dtype: np.dtype[np.generic], range_: TaskRange = UNCLIPPED, scale: float = 1.0) -> Array:
    """Take values through a table, clip them to a range of real numbers and round them.

    ``scale`` is the real value of 1 of an integer type.
    """
    if range_.table != NO_TABLE:
        real = values if dtype.kind == "f" else values * scale
        values = looked_up(range_.table, real) if dtype.kind == "f" else looked_up(range_.table, real) / scale
    if range_[:2] != UNCLIPPED[:2]:
        low, high = (end if dtype.kind == "f" else end / scale for end in range_[:2])
        values = np.clip(values, low, high)
    return rounded(values, dtype)
