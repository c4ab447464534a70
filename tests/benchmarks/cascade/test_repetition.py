"""How much is computed twice."""

from __future__ import annotations

import pytest

from benchmarks.cascade.chains import chain
from benchmarks.cascade.repetition import repetition
from nnhal_cascade.compiler import frontier
from nnhal_cascade.geometry.box import Interval, whole
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.plans.plan import Plan, Proposal, WeightsIn
from nnhal_cascade.schedule.schedule import Schedule


def test_schedules_that_may_not_recompute_do_not() -> None:
    assert {repetition(each) for each in frontier(chain(4), system_for("u55-128"))} == {1.0}


def test_tiles_repeat_what_they_share() -> None:
    graph = chain(2)
    output = whole(graph.tensors[-1].shape)
    tiles = tuple(output._replace(rows=Interval(start, start + 24)) for start in (0, 24))
    plan = Plan((0, 1), (24, 24), (WeightsIn.STREAMED,) * 2, tiles)
    schedule = Schedule(graph, system_for("u55-128"), Proposal((plan,), 0, 0), (False,), (), (), 0)
    assert repetition(schedule) == pytest.approx((25 + 25 + 48) / 96)
