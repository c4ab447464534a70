"""Proposals: the fastest within a limit, against all of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nnhal_cascade.geometry.box import Axis
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.plans.candidates import PlanCandidate
from nnhal_cascade.plans.proposals import ProposalSearch
from tests.support.small_networks import residual

GRAPH = build_graph(residual())


@st.composite
def spaces(draw: st.DrawFn) -> list[list[PlanCandidate]]:
    """Draw candidates for the groups of a graph; each part alone has at least one."""
    count = len(GRAPH.parts)
    found: list[list[PlanCandidate]] = [[] for _ in range(count)]
    for stop in range(1, count + 1):
        for first in range(stop):
            for _ in range(draw(st.integers(1 if first == stop - 1 else 0, 2))):
                memory, cycles = draw(st.integers(1, 9)), draw(st.integers(1, 9))
                stripes = (1,) * (stop - first)
                found[stop - 1].append(
                    PlanCandidate(first, stop, memory, cycles, 0, Axis.ROWS, 0, stripes, frozenset())
                )
    return found


@st.composite
def waiting_spaces(draw: st.DrawFn) -> list[list[PlanCandidate]]:
    """Draw candidates that wait for constants, unless these are copied while the plan before runs."""
    return [
        [
            each._replace(waits=draw(st.integers(0, 5)), copied_bytes=draw(st.integers(0, 9)), moved=each.busy // 2)
            for each in ending
        ]
        for ending in draw(spaces())
    ]


def every_way(space: list[list[PlanCandidate]], stop: int) -> Iterator[tuple[int, int]]:
    """Yield cycles and memory of every proposal."""
    if not stop:
        yield 0, 0
        return
    for each in space[stop - 1]:
        for cycles, memory in every_way(space, each.first):
            yield cycles + each.cycles, max(memory, each.memory)


@given(spaces(), st.integers(1, 9))
def test_the_fastest_within_a_limit_is_the_best_of_all(space: list[list[PlanCandidate]], limit: int) -> None:
    found = ProposalSearch(GRAPH, space).fastest(limit)
    fitting = [cycles for cycles, memory in every_way(space, len(space)) if memory <= limit]
    assert (found.cycles if found else None) == min(fitting, default=None)


@given(spaces())
def test_within_less_and_less_memory_there_are_all_that_none_beats(space: list[list[PlanCandidate]]) -> None:
    search = ProposalSearch(GRAPH, space)
    found = [(each.cycles, each.memory) for each in search.within(9)]
    assert all(one[0] <= other[0] and one[1] > other[1] for one, other in pairwise(found))
    for cycles, memory in every_way(space, len(space)):
        assert any(each[0] <= cycles and each[1] <= memory for each in found)
    assert search.least() == found[-1][1]
    assert [each.proposal for each in search.within(9)] == [
        each.proposal for each in ProposalSearch(GRAPH, space).within(9)
    ]


@given(waiting_spaces(), st.integers(1, 18), st.integers(1, 18), st.booleans())
def test_from_what_is_near_the_same_is_found_as_from_the_start(
    space: list[list[PlanCandidate]], limit: int, less: int, is_banned: bool
) -> None:
    search = ProposalSearch(GRAPH, space)
    near = search.fastest(limit)
    banned = {near.candidates[-1]} if near is not None and is_banned else set[PlanCandidate]()
    found, right = search.fastest(less, banned, near), ProposalSearch(GRAPH, space).fastest(less, banned)
    assert (found and found.candidates) == (right and right.candidates)
    assert (found and found.proposal) == (right and right.proposal)


@given(spaces())
def test_the_plans_of_a_proposal_cover_each_part_once(space: list[list[PlanCandidate]]) -> None:
    found = ProposalSearch(GRAPH, space).fastest()
    assert found is not None
    assert [part for plan in found.proposal.plans for part in plan.parts] == list(range(len(space)))


def test_constants_of_a_plan_are_copied_when_those_of_the_plan_before_have_been() -> None:
    count = len(GRAPH.parts)
    start = PlanCandidate(0, 1, 5, 9, 0, Axis.CHANNELS, 0, (1,), frozenset({0}), 2, moved=6)
    end = PlanCandidate(1, count, 5, 20, 7, Axis.ROWS, 0, (1,) * (count - 1), frozenset({1}), 3)
    search = ProposalSearch(GRAPH, [[start], *([] for _ in GRAPH.parts[2:]), [end]])
    waits = {limit: found.cycles - 29 for limit in (8, 7) if (found := search.fastest(limit)) is not None}
    assert waits == {8: 7 - (9 - 6), 7: 7}


def test_a_part_with_which_no_plan_ends_may_be_within_one() -> None:
    """A limit of memory may leave plans over all parts, and none that ends before the last."""
    only = PlanCandidate(0, len(GRAPH.parts), 7, 9, 9, Axis.ROWS, 0, (1,) * len(GRAPH.parts), frozenset())
    search = ProposalSearch(GRAPH, [*([] for _ in GRAPH.parts[1:]), [only]])
    assert search.least() == 7
    found = search.fastest()
    assert found is not None
    assert found.candidates == (only,)


@given(spaces())
def test_banned_plans_are_not_taken(space: list[list[PlanCandidate]]) -> None:
    search = ProposalSearch(GRAPH, space)
    first = search.fastest()
    assert first is not None
    second = search.fastest(None, {first.candidates[0]})
    assert second is None or first.candidates[0] not in second.candidates
