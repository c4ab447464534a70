"""Cost of a network for plans: devices on other hosts, by the prices that the framework uses."""

from __future__ import annotations

from itertools import groupby
from random import Random

import pytest

from nnhal.types import Model, TransferCosts
from nnhal_service.fallback import Side, edge_ns, price_ns, values_of
from nnhal_service.partition import Candidate, Options, Partitioning, Task, partition
from nnhal_service.partition.grow import Group, dependencies, grow
from nnhal_service.partition.objective import cost_of
from nnhal_service.partition.step_model import plan_of
from tests.service.planning import chain_of, device, figures_of, graph_of, random_graph, task_of

CPU = Side("cpu_ref", costs=TransferCosts(0, 0, 0, 0))
ROUND_TRIP_NS = 100.0
Needs = tuple[frozenset[int], ...]


def remote(name: str, copy_ns_per_byte: float, keeps: bool = True) -> Side:
    """A device at the other end of a connection."""
    costs = TransferCosts(ROUND_TRIP_NS, 0, 1_000_000, copy_ns_per_byte, is_wire=True)
    return Side(name, frozenset(), frozenset(), costs=costs, keeps=keeps)


def task_over(model: Model, *sides: Side) -> Task:
    known = {side.name: side for side in sides}
    return task_of(model, edge_ns(known), edge_ns(known, is_fetched=True))


def devices_of(partitioning: Partitioning) -> list[str]:
    return [step.device for step in partitioning.plan.steps]


def placed(copy_ns_per_byte: float, remote_ns: float = 10.0) -> Partitioning:
    """Five operations of 100 ns each on the CPU. Four bytes go in and come out, and more between the operations."""
    candidates = [device("npu-7", [remote_ns] * 5, hop_ns=ROUND_TRIP_NS), device("cpu_ref", [100.0] * 5)]
    return partition(task_over(chain_of(5), remote("npu-7", copy_ns_per_byte), CPU), candidates, Options())


def test_a_fast_link_to_a_fast_device_is_used_and_a_slow_one_is_not() -> None:
    assert devices_of(placed(0.01)) == ["npu-7"]
    assert devices_of(placed(10_000)) == ["cpu_ref"]
    assert devices_of(placed(0.01, remote_ns=99)) == ["cpu_ref"]


def test_a_model_goes_elsewhere_as_soon_as_that_saves_time() -> None:
    """The whole of it takes 500 ns here; there 50, a round trip of 100 and eight bytes."""
    even = (500 - 50 - 100) / 8
    there, here = placed(even * 0.999).report, placed(even * 1.001).report
    assert there is not None
    assert here is not None
    assert [step.device for step in there.cost.steps] == ["npu-7"]
    assert there.cost.total_ns == pytest.approx(50 + 100 + 8 * even * 0.999)
    assert here.whole_model_ns["npu-7"] == pytest.approx(150 + 8 * even * 1.001)
    assert here.cost.total_ns == 500
    assert here.whole_model_hand_over_ns["npu-7"] == pytest.approx(100 + 8 * even * 1.001)
    assert here.whole_model_hand_over_ns["cpu_ref"] == 0


def test_what_a_device_keeps_does_not_travel_between_its_steps() -> None:
    """0 -> 1 -> 2, of which the second cannot run there, and 2 also reads what 0 has kept."""
    model = graph_of([[0], [0], [1, 2]])
    groups: list[Group] = [(0, (0,)), (1, (1,)), (0, (2,))]
    candidates = [device("npu-7", [1] * 3), device("cpu_ref", [1] * 3)]
    for keeps, between in ((True, 0.0), (False, 2 * 8 * 10.0)):
        cost = cost_of(figures_of(task_over(model, remote("npu-7", 10, keeps), CPU), candidates), groups)
        by_ends = {(edge.source, edge.destination): edge.ns for edge in cost.edges}
        assert by_ends == {(None, 0): 40, (None, 1): 0, (0, 2): between, (1, 2): 120, (2, None): 160}


def test_what_others_read_too_comes_once_and_goes_back_to_its_device() -> None:
    """The result of 0 is read by 1 and 3 elsewhere, and by 2 on its own device."""
    model = graph_of([[0], [1], [1], [1, 2, 3]])
    candidates = [device("npu-7", [1] * 4), device("cpu_ref", [1] * 4)]
    problem = figures_of(task_over(model, remote("npu-7", 10), CPU), candidates)
    cost = cost_of(problem, [(0, (0,)), (1, (1,)), (0, (2,)), (1, (3,))])
    uses = {(edge.source, edge.destination): edge.ns for edge in cost.edges if edge.operand == 1}
    assert uses == {(0, 1): 80, (0, 2): 80, (0, 3): 0}
    assert sum(edge.ns for edge in cost.edges if edge.operand == 3) == 160


def test_an_output_that_is_read_too_comes_once() -> None:
    model = graph_of([[0], [1]], outputs=[0])
    candidates = [device("npu-7", [1] * 2), device("cpu_ref", [1] * 2)]
    cost = cost_of(figures_of(task_over(model, remote("npu-7", 10), CPU), candidates), [(0, (0,)), (1, (1,))])
    assert {(edge.source, edge.destination): edge.ns for edge in cost.edges} == {
        (None, 0): 40,
        (0, None): 80,
        (0, 1): 0,
        (1, None): 0,
    }


def test_between_two_hosts_a_value_comes_down_by_one_link_and_goes_up_by_the_other() -> None:
    cost = edge_ns({side.name: side for side in (remote("a", 2), remote("b", 5), CPU)})
    assert cost("a", "b", 1000) == 2000 + 5000
    assert cost("b", "a", 1000) == 5000 + 2000
    assert cost("a", "cpu_ref", 1000) == cost("a", None, 1000) == 2000
    assert cost("cpu_ref", "b", 1000) == cost(None, "b", 1000) == 5000
    assert cost("a", "a", 1000) == 0


@pytest.mark.parametrize("seed", range(8))
def test_a_plan_over_networks_is_the_best_of_all_and_its_bound_holds(seed: int) -> None:
    """Of all plans of five operations on three devices; without kept values the search finds the best one."""
    random = Random(seed)
    model = random_graph(random, 5)
    sides = [remote("npu-7", 10, seed % 2 == 0), remote("npu-8", 3, seed % 2 == 0), CPU]
    task, candidates = task_over(model, *sides), _figures(random, sides, 5)
    problem = figures_of(task, candidates)
    best = min(cost_of(problem, groups).total_ns for groups in _plans(problem.needs, 3))
    report = partition(task, candidates, Options()).report
    assert report is not None
    assert report.lower_bound_ns <= best * (1 + 1e-9)
    assert report.cost.total_ns >= best * (1 - 1e-9)
    if seed % 2:
        assert report.cost.total_ns == pytest.approx(best)


@pytest.mark.parametrize("seed", range(20))
def test_the_price_of_a_plan_is_that_of_its_edges(seed: int) -> None:
    random = Random(seed)
    model = random_graph(random, 12)
    sides = {side.name: side for side in (remote("npu-7", 10, seed % 2 == 0), remote("npu-8", 3, seed % 2 == 0), CPU)}
    candidates = _figures(random, list(sides.values()), 12)
    task = task_over(model, *sides.values())
    groups = grow(dependencies(model.main), [random.randrange(3) for _ in range(12)])
    names = list(sides)
    plan = plan_of(model, [(names[number], operations) for number, operations in groups], task.dimensions)
    ends = frozenset(model.main.input_indexes), frozenset(model.main.output_indexes)
    values = values_of(plan.steps, sides, *ends, lambda operand: 4 * model.main.operands[operand].dimensions[0])

    def side(step: int | None) -> Side:
        return Side("client") if step is None else sides[plan.steps[step].device]

    total = sum(
        price_ns(edge, side(value.writer), side(destination))
        for value in values.values()
        for destination, edge in zip(value.destinations, value.edges, strict=True)
    )
    assert total == pytest.approx(sum(edge.ns for edge in cost_of(figures_of(task, candidates), groups).edges))


def _figures(random: Random, sides: list[Side], count: int) -> list[Candidate]:
    times = {side.name: [random.uniform(1, 30 if side.costs.is_wire else 300) for _ in range(count)] for side in sides}
    return [device(side.name, times[side.name], hop_ns=side.costs.hop_ns / 5) for side in sides]


def _plans(needs: Needs, devices: int, done: tuple[tuple[int, int], ...] = ()) -> list[list[Group]]:
    """Every order of the operations on every device."""
    numbers = {number for _, number in done}
    if len(done) == len(needs):
        return [[(key, tuple(number for _, number in run)) for key, run in groupby(done, key=lambda entry: entry[0])]]
    return [
        groups
        for number, before in enumerate(needs)
        if number not in numbers and before <= numbers
        for chosen in range(devices)
        for groups in _plans(needs, devices, (*done, (chosen, number)))
    ]
