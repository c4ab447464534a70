"""Questions to the exact solver: the buffers of a schedule."""

from __future__ import annotations

from benchmarks.compilers.exact import ExactResult, exact_aims, placement_problem
from nnhal_cascade.compiler import CompilerOptions, compile_graph
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from tests.support.small_networks import two_convs


def test_a_problem_has_the_inputs_and_each_plan_of_a_schedule() -> None:
    graph = build_graph(two_convs())
    schedule = compile_graph(graph, system_for("u55-128"), CompilerOptions(max_plan_parts=1))
    problem = placement_problem(schedule)
    assert problem["limit"] == schedule.peak
    assert [sorted(plan["arrive"]) for plan in problem["plans"]] == [
        [tensor.index for tensor in graph.tensors if tensor.is_input],
        *([graph.parts[plan.parts[-1]].output] for plan in schedule.proposal.plans),
    ]
    assert all(len(plan["ways"]) in (1, 2) for plan in problem["plans"])


def test_a_smaller_placement_misses_the_aim_and_an_unproved_one_is_said() -> None:
    (aim,) = exact_aims([ExactResult("small", 10, 8, 8, True), ExactResult("least", 10, 10, 9, False)])
    assert (aim.figure, aim.remark) == (1, "small; 1 unproved")
