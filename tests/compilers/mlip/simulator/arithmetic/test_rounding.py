"""Rounding to the output's type."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal_mlip.program.program import TaskRange
from nnhal_mlip.simulator.arithmetic.rounding import finished, half_away


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_halves_go_away_from_zero_and_what_is_just_below_does_not(dtype: type[np.floating]) -> None:
    below = np.nextafter(dtype(0.5), dtype(0))
    values = np.array([0.5, -0.5, 1.5, 2.5, -2.5, below, -below, 0.0, 8388609.0], dtype)
    assert half_away(values).tolist() == [1, -1, 2, 3, -3, 0, 0, 0, 8388609]


def test_integers_are_clamped_after_the_range() -> None:
    values = np.array([-1e30, -np.inf, 126.5, 127.6, np.inf, 3.4])
    assert finished(values, np.dtype(np.int8)).tolist() == [-128, -128, 127, 127, 127, 3]
    clipped = finished(values, np.dtype(np.int8), TaskRange(-1.0, 6.0), 0.125)
    assert clipped.tolist() == [-8, -8, 48, 48, 48, 3]


def test_a_range_of_floats_has_no_scale() -> None:
    values = np.array([-2.0, 0.1, 7.0], np.float32)
    expected = np.array([0.0, 0.1, 6.0], np.float16)
    np.testing.assert_array_equal(finished(values, np.dtype(np.float16), TaskRange(0.0, 6.0), 0.125), expected)
