"""Progress of a part for what reads it."""

from __future__ import annotations

import numpy as np

from nnhal_cascade.geometry.accesses import OneToOne, Windowed
from nnhal_cascade.plans.demand import (
    greatest_lead,
    halvings,
    needed_start,
    needed_stop,
    rolling_extent,
    rounded_up,
)

WINDOW = Windowed(length=6, kernel=3, before=1)


def test_a_window_needs_one_row_more_than_is_done_but_none_of_the_padding() -> None:
    assert needed_stop(WINDOW, 6).tolist() == [0, 2, 3, 4, 5, 6, 6]


def test_rows_are_needed_until_the_last_window_over_them_is_done() -> None:
    assert needed_start(WINDOW, 6, 6).tolist() == [0, 0, 1, 2, 3, 4, 6]


def test_whole_stripes_run() -> None:
    assert rounded_up(np.array([0, 1, 4, 5]), 4, 6).tolist() == [0, 4, 4, 6]


def test_a_rolling_buffer_holds_a_window_and_what_stripes_do_not_divide() -> None:
    assert rolling_extent(WINDOW, 6, 6, 1, 1) == 3
    assert rolling_extent(WINDOW, 6, 6, 2, 2) == 5
    assert rolling_extent(OneToOne(6), 6, 6, 1, 1) == 1


def test_a_stride_skips_rows() -> None:
    assert rolling_extent(Windowed(length=8, kernel=3, stride=2), 3, 8, 1, 1) == 3


def test_a_lead_is_at_least_nothing() -> None:
    assert greatest_lead(np.array([1, 5]), np.array([0, 2])) == 3
    assert greatest_lead(np.array([1]), np.array([2])) == 0


def test_stripes_are_halved_and_rounded_up() -> None:
    assert halvings(7) == [7, 4, 2, 1]
    assert [list(halvings(7, each)) for each in (1, 2, 3, 4, 9)] == [[7], [7, 1], [7, 4, 1], [7, 4, 2, 1], [7, 4, 2, 1]]
