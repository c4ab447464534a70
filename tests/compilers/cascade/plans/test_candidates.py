"""The plans that are tried, and the memory that their closed form says they need."""

from __future__ import annotations

import pytest

from nnhal_cascade.geometry.box import Axis
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.performance.stripe_pricer import StripePricer
from nnhal_cascade.plans.candidates import PlanCandidate, PlanSpace, Tried
from nnhal_cascade.plans.homes import Homes
from nnhal_cascade.plans.part_costs import PartCosts
from nnhal_cascade.plans.plan import Proposal
from nnhal_cascade.plans.proposals import ProposalSearch
from nnhal_cascade.schedule.lowering import Lowering
from nnhal_cascade.schedule.schedule import Schedule
from tests.support.small_networks import residual, two_convs

SYSTEM = system_for("u55-128")


def candidates(graph: CascaderGraph, parts: int = 10, recompute: bool = False) -> list[PlanCandidate]:
    homes = Homes(graph, SYSTEM)
    space = PlanSpace(homes, PartCosts(homes, StripePricer(graph, SYSTEM)), Tried(parts, recompute))
    return [each for ending in space.all() for each in ending]


def test_no_candidate_of_a_group_is_beaten_in_memory_and_in_cycles() -> None:
    found = candidates(build_graph(two_convs()))
    assert len(found) > 4
    for one in found:
        for other in found:
            if one is not other and (one.first, one.stop) == (other.first, other.stop):
                assert one.memory < other.memory or one.cycles < other.cycles


def test_without_cascades_each_part_is_alone() -> None:
    assert {each.stop - each.first for each in candidates(build_graph(two_convs()), parts=1)} == {1}


def test_a_group_is_no_larger_than_allowed() -> None:
    assert {each.stop - each.first for each in candidates(build_graph(residual()), parts=2)} == {1, 2}


def test_bands_are_tried_only_if_values_may_be_computed_twice() -> None:
    graph = build_graph(two_convs())
    assert not any(each.band and each.stop - each.first > 1 for each in candidates(graph))
    assert any(each.band and each.stop - each.first > 1 for each in candidates(graph, recompute=True))


@pytest.mark.parametrize("recompute", [False, True])
def test_a_chain_takes_the_memory_that_was_said(recompute: bool) -> None:
    """Stripes that do not divide a tensor may take less backwards."""
    graph = build_graph(two_convs())
    for each in candidates(graph, recompute=recompute):
        if each.stop - each.first == 2:
            plan = each.plan(graph)
            schedule = Lowering(Homes(graph, SYSTEM), StripePricer(graph, SYSTEM)).schedule(
                Proposal((plan,), each.memory, each.cycles)
            )
            assert isinstance(schedule, Schedule)
            assert schedule.peak <= each.memory
            assert schedule.peak == each.memory or each.stripes != (1, 1)
            assert each.busy <= schedule.cycles


def test_the_cycles_of_an_uncut_part_are_exact() -> None:
    graph = build_graph(two_convs())
    rows = graph.tensors[graph.parts[0].output].shape.rows
    uncut = next(
        each for each in candidates(graph, 1) if each.stop == 1 and each.stripes == (rows,) and not each.copied
    )
    assert uncut.along == Axis.ROWS
    assert uncut.cycles == uncut.busy


@pytest.mark.parametrize("name", ["u55-128", "u65-256"])
def test_a_rival_leaves_out_no_plan_of_a_faster_proposal(name: str) -> None:
    graph, system = build_graph(residual()), system_for(name)
    for spilled in (frozenset[int](), frozenset({1})):
        homes = Homes(graph, system, spilled)
        costs = PartCosts(homes, StripePricer(graph, system))
        every = PlanSpace(homes, costs, Tried(10)).all()
        fastest = ProposalSearch(graph, every, homes.spilled).fastest()
        assert fastest is not None
        rivalled = PlanSpace(homes, costs, Tried(10), rival=fastest.cycles + 1).all()
        found = ProposalSearch(graph, rivalled, homes.spilled).fastest()
        assert found is not None and found.candidates == fastest.candidates
        assert sum(map(len, rivalled)) < sum(map(len, every))
        assert PlanSpace(homes, costs, Tried(10), rival=1).slack <= 0


def test_a_limit_leaves_out_no_plan_of_a_proposal_within_it() -> None:
    graph = build_graph(residual())
    homes = Homes(graph, SYSTEM)
    costs = PartCosts(homes, StripePricer(graph, SYSTEM))
    every = ProposalSearch(graph, PlanSpace(homes, costs, Tried(10)).all())
    least = every.least()
    for limit in (least - 1, least, least + 50, 2 * least):
        endings = PlanSpace(homes, costs, Tried(10), limit).all()
        wanted, found = every.fastest(limit), ProposalSearch(graph, endings).fastest(limit)
        assert (found and found.cycles) == (wanted and wanted.cycles)
        assert bool(endings[-1]) == (limit >= least), "plans behind which no other leads are left out"
