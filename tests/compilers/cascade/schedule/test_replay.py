"""A schedule stripe by stripe."""

from __future__ import annotations

from itertools import pairwise

import pytest

from nnhal_cascade.performance.price import copy_cycles
from nnhal_cascade.schedule.replay import PlanReplay, replay
from tests.support.cascades import SIDE, SYSTEM, schedule


@pytest.fixture(scope="module")
def replays() -> tuple[PlanReplay, ...]:
    return replay(schedule())


def test_plans_run_one_after_the_other(replays: tuple[PlanReplay, ...]) -> None:
    first, second = replays
    assert (first.start, first.end, second.end) == (0, second.start, schedule().cycles)


def test_stripes_run_one_after_the_other(replays: tuple[PlanReplay, ...]) -> None:
    for plan in replays:
        for one, other in pairwise(plan.stripes):
            assert one.start < one.end <= other.start
        assert plan.stripes[-1].end == plan.end


def test_each_part_of_a_cascade_runs_all_its_stripes(replays: tuple[PlanReplay, ...]) -> None:
    parts = [stripe.run.part for stripe in replays[0].stripes]
    assert {part: parts.count(part) for part in parts} == {0: SIDE, 1: SIDE, 2: SIDE}
    assert [stripe.run.part for stripe in replays[1].stripes] == [3, 3]


def test_a_plan_waits_for_the_first_copy_of_its_constants(replays: tuple[PlanReplay, ...]) -> None:
    assert replays[0].waiting == copy_cycles(SYSTEM, "flash", "sram", 8 * 46)
    assert replays[1].waiting >= copy_cycles(SYSTEM, "flash", "sram", 8 * 18)


def test_multiply_adds_are_those_of_the_network(replays: tuple[PlanReplay, ...]) -> None:
    pixels = SIDE * SIDE
    assert replays[1].macs == pixels * 16 * 8
    assert sum(s.macs for s in replays[0].stripes if s.run.part < 2) == pixels * 8 * (9 * 4 + 9)


def test_copied_constants_are_read_once_and_streamed_ones_for_each_stripe(replays: tuple[PlanReplay, ...]) -> None:
    assert replays[1].read["flash"] == 16 * 18
    assert replays[0].read["flash"] >= 8 * 46 + SIDE * 8 * 19


def test_copies_are_done_one_after_the_other_and_before_the_stripe_that_needs_them(
    replays: tuple[PlanReplay, ...],
) -> None:
    copies = [copy for plan in replays for copy in plan.copies]
    assert [copy.part for copy in copies] == [0, 3, 3]
    for one, other in pairwise(copies):
        assert one.start < one.end <= other.start
    assert copies[0].end == replays[0].stripes[0].start
    assert copies[1].end <= replays[1].stripes[0].start
