"""What pipelines that drain cost."""

from __future__ import annotations

from benchmarks.cascade.chains import chain
from benchmarks.cascade.draining import drained_cycles
from nnhal_cascade.compiler import CompilerOptions, compile_graph, frontier
from nnhal_cascade.hardware.memory_file import system_for


def test_only_schedules_with_several_stripes_of_a_part_pay() -> None:
    graph, system = chain(4), system_for("u55-128")
    for schedule in frontier(graph, system):
        several = any(
            stripe < graph.tensors[graph.parts[part].output].shape[plan.along] or len(plan.tiles) > 1
            for plan in schedule.proposal.plans
            for part, stripe in zip(plan.parts, plan.stripes, strict=True)
        )
        assert (drained_cycles(schedule) > schedule.cycles) == several


def test_less_memory_costs_more_if_pipelines_drain() -> None:
    graph, system = chain(4), system_for("u55-128")
    fastest = compile_graph(graph, system, CompilerOptions())
    least = frontier(graph, system)[-1]
    assert drained_cycles(least) - least.cycles > drained_cycles(fastest) - fastest.cycles
