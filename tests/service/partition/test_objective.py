from __future__ import annotations

from nnhal_service.partition.objective import EdgeCost, StepCost, all_connected, cost_of
from tests.service.planning import device, figures_of, graph_of, task_of


def edge_ns(source: str | None, destination: str | None, size: int) -> float:
    """Costs that identify source and destination, plus 1 for each byte."""
    digit = {None: 0, "a": 1, "b": 2}
    return 1000 * digit[source] + 100 * digit[destination] + size


def test_a_plan_takes_launches_operations_and_each_value_once_for_each_step_that_reads_it() -> None:
    # x -> 0 -> 1 -> 3 and x -> 2 -> 3, with 0 as an output too; values have 4, 8, 12, 16 and 20 bytes.
    model = graph_of([[0], [1], [0, 1], [2, 3]], outputs=[0])
    candidates = [device("a", [1, 2, 3, 4], hop_ns=10, sync_ns=5), device("b", [10, 20, 30, 40], hop_ns=100)]
    cost = cost_of(figures_of(task_of(model, edge_ns), candidates), [(0, (0,)), (1, (1, 2)), (0, (3,))])
    assert cost.steps == (
        StepCost("a", (0,), 15, 1),
        StepCost("b", (1, 2), 100, 50),
        StepCost("a", (3,), 15, 4),
    )
    assert cost.edges == (
        EdgeCost(0, None, 0, 4, 104),
        EdgeCost(1, 0, None, 8, 1008),
        EdgeCost(1, 0, 1, 8, 1208),
        EdgeCost(0, None, 1, 4, 204),
        EdgeCost(2, 1, 2, 12, 2112),
        EdgeCost(3, 1, 2, 16, 2116),
        EdgeCost(4, 2, None, 20, 1020),
    )
    assert cost.total_ns == 16 + 150 + 19 + 104 + 1008 + 1208 + 204 + 2112 + 2116 + 1020


def test_a_value_that_goes_back_to_the_device_it_came_from_is_passed_too() -> None:
    model = graph_of([[0], [1], [1, 2]])
    candidates = [device("a", [1] * 3), device("b", [1] * 3)]
    cost = cost_of(figures_of(task_of(model, edge_ns), candidates), [(0, (0,)), (1, (1,)), (0, (2,))])
    assert EdgeCost(1, 0, 2, 8, 1108) in cost.edges


def test_a_step_reads_and_writes_something() -> None:
    unread = graph_of([[0], [0], [1]])
    unread = type(unread)(
        type(unread.main)(unread.main.operands, unread.main.operations, (0,), unread.main.output_indexes[1:])
    )
    problem = figures_of(task_of(unread, edge_ns), [device("a", [1] * 3)])
    assert all_connected(problem, [(0, (0, 1, 2))])
    assert not all_connected(problem, [(0, (0, 2)), (0, (1,))])
    constant = figures_of(task_of(graph_of([[], [0, 1]]), edge_ns), [device("a", [1] * 2)])
    assert all_connected(constant, [(0, (0, 1))])
    assert not all_connected(constant, [(0, (0,)), (0, (1,))])
