"""Memory that a plan needs, found by walking it."""

from __future__ import annotations

import pytest

from nnhal_cascade.geometry.box import Axis, Interval, Shape, whole
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.plans.plan import Plan
from nnhal_cascade.schedule.profile import PlanProfile, advances_by_rows, profile
from nnhal_cascade.schedule.walk import walk
from tests.support.schedules import cascade
from tests.support.small_networks import residual, two_convs

CHAIN, BRANCH = build_graph(two_convs()), build_graph(residual())


def chain_profile(plan: Plan, backwards: bool = False) -> PlanProfile:
    return profile(CHAIN, plan, walk(CHAIN, plan, backwards))


@pytest.mark.parametrize("backwards", [False, True])
def test_a_window_of_rows_lies_between_two_convolutions(backwards: bool) -> None:
    assert chain_profile(cascade(CHAIN, [0, 1], 1), backwards).extents == {1: Shape(3, 10, 8)}


def test_forwards_an_output_may_start_where_its_dying_input_does() -> None:
    """A row of the output has 32 bytes, one of the input 80. The first is written while all of the input lives."""
    found = chain_profile(cascade(CHAIN, [1], 1))
    assert found.below == {(2, 1): 32}
    assert found.above == {(2, 1): 800}


def test_backwards_an_output_may_end_where_its_dying_input_does() -> None:
    found = chain_profile(cascade(CHAIN, [1], 1), backwards=True)
    assert found.below == {(2, 1): 256}
    assert found.above == {(2, 1): 800 - 7 * 32}


def test_what_goes_along_the_columns_writes_all_rows_at_once() -> None:
    plan = cascade(CHAIN, [1], 1, Axis.COLUMNS)
    assert not advances_by_rows(CHAIN, plan)
    assert chain_profile(plan).below == {(2, 1): 256}


def test_bands_of_rows_advance_by_rows() -> None:
    output = whole(CHAIN.tensors[2].shape)
    tiles = [output.along(Axis.ROWS, Interval(start, start + 4)) for start in (0, 4)]
    assert advances_by_rows(CHAIN, cascade(CHAIN, [0, 1], 1, Axis.COLUMNS, tiles=tiles))


def test_what_is_read_after_the_plan_is_an_output_and_no_buffer() -> None:
    plan = cascade(BRANCH, [0, 1], 1)
    found = profile(BRANCH, plan, walk(BRANCH, plan))
    assert found.extents == {}
    assert set(found.below) == {(1, 0), (2, 0)}
