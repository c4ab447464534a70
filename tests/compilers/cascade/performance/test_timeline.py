"""Copies beside stripes."""

from __future__ import annotations

from nnhal_cascade.performance.price import Price
from nnhal_cascade.performance.timeline import Timeline


def price(cycles: int, fill: int = 0) -> Price:
    return Price(cycles, fill, 0, {}, {})


def test_stripes_run_one_after_the_other() -> None:
    timeline = Timeline()
    timeline.run(0, price(10))
    timeline.run(1, price(5))
    assert timeline.end == 15


def test_a_part_pays_its_largest_fill_once_in_a_plan() -> None:
    timeline = Timeline()
    for fill in (3, 7, 2):
        timeline.run(0, price(10, fill))
    assert timeline.end == 37
    timeline.begin_plan()
    timeline.run(0, price(10, 3))
    assert timeline.end == 50


def test_a_copy_runs_beside_stripes_and_a_stripe_waits_for_its_own() -> None:
    timeline = Timeline()
    ready = timeline.copy(12)
    timeline.run(0, price(10))
    assert timeline.now == 10
    timeline.run(1, price(10), ready)
    assert timeline.now == 22


def test_copies_follow_one_another_and_start_when_they_are_issued() -> None:
    timeline = Timeline()
    assert (timeline.copy(5), timeline.copy(5)) == (5, 10)
    timeline.run(0, price(30))
    assert timeline.copy(5) == 35
    assert timeline.end == 35
