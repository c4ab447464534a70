"""The compiler: networks in the least memory, budgets, and what does not fit."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from nnhal_cascade.compiler import (
    CompilerOptions,
    ConstantsDoNotFitError,
    DoesNotFitError,
    compile_graph,
    frontier,
    least_memory,
)
from nnhal_cascade.graph.feeds import InputPlace, with_inputs
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory import Content, MemoryRegion
from nnhal_cascade.hardware.memory_file import system_for
from tests.compilers.cascade.test_random_networks import assert_as_planned
from tests.support.ethos_u import needs_networks, network
from tests.support.npu import SAME
from tests.support.small_networks import Network, residual, two_convs

SYSTEM = system_for("u55-128")
LEAST = {
    "mobilenet_v1_1.0_224": 240_128,
    "mobilenet_v2_1.0_224": 204_288,
    "mobilenet_v1_0.25_96": 28_032,
    "ds_cnn_kws": 8_640,
    "two_conv_rfc": 9_504,
}
"""Bytes if no value is computed twice: input, output and rolling rows. A dying input and an output share memory."""


@pytest.mark.slow
@needs_networks
@pytest.mark.parametrize(
    ("name", "place", "least"),
    [
        *((name, InputPlace.RESIDENT, least) for name, least in LEAST.items()),
        ("mobilenet_v1_1.0_224", InputPlace.STREAMED, 191_968),
        ("mobilenet_v2_1.0_224", InputPlace.STREAMED, 131_040),
        ("mobilenet_v1_0.25_96", InputPlace.STREAMED, 14_592),
        ("two_conv_rfc", InputPlace.STREAMED, 5_184),
    ],
)
def test_a_network_runs_in_the_least_memory_as_planned(name: str, place: InputPlace, least: int) -> None:
    model = network(name)
    schedule = compile_graph(with_inputs(build_graph(model), place), SYSTEM, CompilerOptions(least))
    assert schedule.peak <= least
    assert_as_planned(model, schedule)


@needs_networks
def test_mobilenet_is_nearly_as_fast_in_280_000_bytes_as_without_cascades() -> None:
    graph = build_graph(network("mobilenet_v1_1.0_224"))
    uncascaded = compile_graph(graph, SYSTEM, CompilerOptions(max_plan_parts=1))
    assert compile_graph(graph, SYSTEM, CompilerOptions(280_000)).cycles <= 1.01 * uncascaded.cycles


@pytest.mark.slow
@needs_networks
def test_recomputing_goes_below_the_least_memory() -> None:
    model = network("mobilenet_v1_1.0_224")
    options = CompilerOptions(200_000, recompute=True)
    schedule = compile_graph(build_graph(model), SYSTEM, options)
    assert schedule.peak <= 200_000 < LEAST["mobilenet_v1_1.0_224"]
    assert_as_planned(model, schedule)


@pytest.mark.slow
@needs_networks
@pytest.mark.parametrize("name", ["ds_cnn_kws", "mobilenet_v1_0.25_96"])
def test_a_budget_buys_what_the_frontier_says(name: str) -> None:
    """The frontier looks at more schedules than a budget does."""
    graph = build_graph(network(name))
    points = frontier(graph, SYSTEM).points
    for budget in range(LEAST[name], 2 * LEAST[name], LEAST[name] // 16):
        best = next(each.cycles for each in points if each.peak <= budget)
        assert compile_graph(graph, SYSTEM, CompilerOptions(budget)).cycles <= 1.01 * best


@pytest.mark.slow
@needs_networks
@pytest.mark.parametrize("name", ["ds_cnn_kws", "mobilenet_v1_0.25_96", "two_conv_rfc"])
def test_more_memory_is_never_slower(name: str) -> None:
    graph = build_graph(network(name))
    budgets = range(LEAST[name], 2 * LEAST[name], LEAST[name] // 23)
    cycles = [compile_graph(graph, SYSTEM, CompilerOptions(budget)).cycles for budget in budgets]
    assert cycles == sorted(cycles, reverse=True)


@pytest.mark.slow
@needs_networks
@pytest.mark.parametrize("name", ["ds_cnn_kws", "two_conv_rfc"])
def test_recomputing_makes_no_point_of_the_frontier_worse(name: str) -> None:
    graph = build_graph(network(name))
    found = frontier(graph, SYSTEM, CompilerOptions(recompute=True)).points
    for point in frontier(graph, SYSTEM).points:
        assert any(each.peak <= point.peak and each.cycles <= point.cycles for each in found)


def test_each_point_of_the_frontier_takes_less_memory_and_more_cycles_than_the_last() -> None:
    found = frontier(build_graph(residual()), SYSTEM).points
    assert len(found) > 1
    assert all(one.cycles < other.cycles and one.peak > other.peak for one, other in pairwise(found))


def test_no_point_of_the_frontier_takes_more_than_there_is() -> None:
    graph, system = build_graph(two_convs()), system_for("u65-256")
    working = replace(system.working, size=1500)
    small = replace(system, regions=(working, *system.regions[1:]))
    assert max(each.peak for each in frontier(graph, system).points) > 1500
    assert max(each.peak for each in frontier(graph, small).points) <= 1500
    assert max(each.peak for each in frontier(graph, small, CompilerOptions(1400)).points) <= 1400


def test_a_budget_below_the_least_is_refused_with_the_least() -> None:
    graph = build_graph(two_convs())
    least = least_memory(graph, SYSTEM)
    assert compile_graph(graph, SYSTEM, CompilerOptions(least)).peak == least
    message = f"does not fit into {least - 1:,} bytes of working memory: the least found is {least:,} bytes"
    with pytest.raises(DoesNotFitError, match=message) as refusal:
        compile_graph(graph, SYSTEM, CompilerOptions(least - 1))
    assert refusal.value.least == least
    assert refusal.value.smallest.peak == least


def test_the_least_memory_may_take_a_cascade_of_more_parts_than_a_fast_schedule_has() -> None:
    """A narrow image becomes wide, and only at the end narrow again."""
    network = Network(24, 4, 2)
    wide = network.conv(network.image, 2, 16, scheme=SAME)
    for _ in range(11):
        wide = network.conv(wide, 16, 16, side=1)
    graph = build_graph(network.recipe.build(network.conv(wide, 16, 2, side=1)))
    with pytest.raises(DoesNotFitError) as limited:
        compile_graph(graph, SYSTEM, CompilerOptions(100, max_plan_parts=10))
    with pytest.raises(DoesNotFitError) as refusal:
        compile_graph(graph, SYSTEM, CompilerOptions(100))
    assert (limited.value.parts, refusal.value.parts) == (10, 13)
    assert least_memory(graph, SYSTEM) == refusal.value.least < limited.value.least
    assert len(refusal.value.smallest.proposal.plans[0].parts) > 10
    assert frontier(graph, SYSTEM).points[-1].peak == refusal.value.least
    assert compile_graph(graph, SYSTEM, CompilerOptions(refusal.value.least)).peak == refusal.value.least


def test_without_cascades_each_plan_has_one_part() -> None:
    schedule = compile_graph(build_graph(residual()), SYSTEM, CompilerOptions(max_plan_parts=1))
    assert {len(plan.parts) for plan in schedule.proposal.plans} == {1}


def test_tensors_that_do_not_fit_are_spilled_if_there_is_a_region_for_them() -> None:
    model = two_convs()
    graph, system = build_graph(model), system_for("u65-256")
    least = least_memory(graph, SYSTEM)
    schedule = compile_graph(graph, system, CompilerOptions(least // 2))
    assert schedule.peak <= least // 2
    assert schedule.spill_peak > 0
    assert_as_planned(model, schedule)


def region(name: str, size: int, *holds: Content) -> MemoryRegion:
    return MemoryRegion(name, size, 4.0, 8, 8, 16, frozenset(holds))


def test_constants_are_copied_only_to_a_memory_that_may_hold_them() -> None:
    given = Network(24, 24, 8)
    graph = build_graph(given.recipe.build(given.conv(given.conv(given.image, 8, 16), 16, 16)))
    sram, flash = SYSTEM.regions
    assert any(schedule.constants for schedule in frontier(graph, SYSTEM).points)
    alone = replace(SYSTEM, regions=(replace(sram, holds=frozenset({Content.ACTIVATIONS})), flash))
    assert not any(schedule.constants for schedule in frontier(graph, alone).points)


def test_constants_that_do_not_fit_at_rest_are_refused() -> None:
    graph, (sram, flash) = build_graph(two_convs()), SYSTEM.regions
    small = replace(SYSTEM, regions=(sram, replace(flash, size=100)))
    needed = sum(graph.constants_bytes)
    for ask in (compile_graph, frontier, least_memory):
        with pytest.raises(ConstantsDoNotFitError, match=rf"the constants take {needed:,} bytes, flash has 100$"):
            ask(graph, small)


@pytest.mark.slow
@pytest.mark.parametrize("at_rest", [0, 1])
def test_no_more_is_spilled_than_the_region_holds(at_rest: int) -> None:
    """The constants may lie in the spill region, too, which leaves less of it."""
    model = two_convs()
    graph = build_graph(model)
    constants, least = sum(graph.constants_bytes), least_memory(graph, SYSTEM)
    kinds = {Content.ACTIVATIONS, *([Content.CONSTANTS] if at_rest else [])}
    for size in range(constants, constants + 2 * least, least // 4):
        spill = region("dram", size, *kinds)
        others = () if at_rest else (region("flash", constants, Content.CONSTANTS),)
        system = replace(SYSTEM, regions=(SYSTEM.regions[0], spill, *others))
        schedules = frontier(graph, system).points
        assert all(each.spill_peak <= size - at_rest * constants for each in schedules)
        assert_as_planned(model, schedules[-1])
        assert schedules[-1].peak == least_memory(graph, system) <= least
