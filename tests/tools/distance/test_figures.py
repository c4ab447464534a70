from __future__ import annotations

import numpy as np
import pytest

from nnhal.types import Operand, OperandType
from nnhal_tools.distance.figures import Distance, steps_between


def test_quantised_values_are_compared_in_steps_and_in_what_they_mean() -> None:
    distance = Distance(Operand(OperandType.TENSOR_QUANT8_ASYMM_SIGNED, (4,), 0.5, 10))
    distance.add(np.array([10, 12, 13, -128], np.int8), np.array([10, 12, 12, -126], np.int8))
    distance.add(np.array([11, 10, 10, 10], np.int8), np.array([10, 10, 10, 10], np.int8))
    found = distance.figures
    assert found.steps == {-2: 1, 0: 5, 1: 2}
    assert (found.elements, found.mismatching, found.largest_step) == (8, 3, 2)
    assert (found.largest, found.mean, found.peak) == (1.0, 2.0 / 8, 68.0)
    assert found.sqnr == pytest.approx(10 * np.log10((1 + 1 + 68**2) / (0.25 + 1 + 0.25)))


def test_floats_are_compared_in_ulps_across_zero() -> None:
    for element in (np.float16, np.float32, np.float64):
        below, above = (np.nextafter(element(0), element(side)) for side in (-1, 1))
        assert steps_between(np.array([above, 1, -1], element), np.array([below, 1, 1], element))[:2].tolist() == [2, 0]
        one = np.array([1], element)
        assert steps_between(np.nextafter(one, element(2)), one).tolist() == [1]
    assert steps_between(np.array([-0.0], np.float32), np.array([0.0], np.float32)).tolist() == [0]


def test_distances_beyond_64_bits_do_not_wrap() -> None:
    most = np.iinfo(np.int64).max
    huge = np.array([1.5e308], np.float64)
    assert steps_between(huge, -huge).tolist() == [most]
    assert steps_between(-huge, huge).tolist() == [-most]
    assert steps_between(np.array([most]), np.array([-2])).tolist() == [most]
    assert steps_between(np.array([most]), np.array([most - 1])).tolist() == [1]
    assert steps_between(np.array([3], np.uint64), np.array([5], np.uint64)).tolist() == [-2]


def test_figures_that_overflow_are_not_known() -> None:
    distance = Distance()
    distance.add(np.array([1e308, 1.0]), np.array([-1e308, 1.0]))
    assert (distance.figures.mismatching, distance.figures.sqnr) == (1, None)


def test_what_is_no_number_on_one_side_only_is_counted_apart() -> None:
    distance = Distance()
    distance.add(np.array([np.nan, np.nan, np.inf, 1.0], "f4"), np.array([np.nan, 0.0, -np.inf, 2.0], "f4"))
    found = distance.figures
    assert (found.mismatching, found.unmatched, found.largest) == (3, 2, 1.0)
    assert not found.is_equal


def test_equal_values_and_empty_ones_have_no_noise() -> None:
    distance = Distance()
    distance.add(np.array([3.0, -4.0], "f4"), np.array([3.0, -4.0], "f4"))
    distance.add(np.zeros((0, 3), "f4"), np.zeros((0, 3), "f4"))
    found = distance.figures
    assert found.is_equal
    assert (found.sqnr, found.steps, found.signal) == (None, {}, 25.0)
    assert found.cosine == pytest.approx(1.0)
