"""Addresses in the spill region."""

from __future__ import annotations

from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.plans.homes import Homes
from nnhal_cascade.schedule.spilling import place_spilled
from tests.support.small_networks import two_convs

GRAPH = build_graph(two_convs())
SPILLED = Homes(GRAPH, system_for("u65-256"), frozenset({0, 1, 2}))


def test_tensors_that_live_at_the_same_time_lie_apart() -> None:
    found, peak = place_spilled(SPILLED, frozenset(), first=[0, 0, 1], last=[0, 1, 1])
    assert {each.tensor: each.address for each in found} == {0: 0, 1: 1152, 2: 0}
    assert {each.region for each in found} == {"dram"}
    assert peak == 1152 + 800


def test_what_lies_within_a_plan_is_not_spilled() -> None:
    found, peak = place_spilled(SPILLED, frozenset({1}), first=[0, 0, 0], last=[0, 0, 0])
    assert {each.tensor: each.address for each in found} == {0: 0, 2: 1152}
    assert peak == 1152 + 256


def test_there_is_nothing_without_a_region_for_it() -> None:
    assert place_spilled(Homes(GRAPH, system_for("u55-128")), frozenset(), [0] * 3, [0] * 3) == ([], 0)
