from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, product
from math import inf
from random import Random

import pytest

from nnhal_service.partition.grow import Group, grow
from nnhal_service.partition.objective import cost_of
from nnhal_service.partition.problem import Problem
from nnhal_service.partition.search import floor_of, search
from tests.service.exhaustion import all_assignments_ns
from tests.service.planning import (
    chain_of,
    device,
    figures_of,
    free,
    graph_of,
    made_up,
    random_graph,
    repeated_block,
    task_of,
)


def assignments(problem: Problem) -> Iterator[tuple[int, ...]]:
    """Every assignment of operations to devices."""
    return product(*(sorted(able) for able in problem.allowed))


def schedules(problem: Problem, done: tuple[tuple[int, int], ...] = ()) -> Iterator[list[Group]]:
    """Every order of operations on every device, as groups."""
    numbers = {number for _, number in done}
    if len(done) == len(problem.reads):
        yield [
            (chosen, tuple(number for _, number in run)) for chosen, run in groupby(done, key=lambda entry: entry[0])
        ]
    for number, needs in enumerate(problem.needs):
        if number not in numbers and needs <= numbers:
            for chosen in sorted(problem.allowed[number]):
                yield from schedules(problem, (*done, (chosen, number)))


def cheapest_grown(problem: Problem) -> float:
    """The least time of all assignments, each in the steps that NNAPI's rule grows."""
    return min(cost_of(problem, grow(problem.needs, devices)).total_ns for devices in assignments(problem))


@pytest.mark.parametrize("seed", range(12))
def test_on_small_graphs_nothing_beats_it_over_all_assignments_and_all_orders_of_steps(seed: int) -> None:
    random = Random(seed)
    problem = figures_of(*made_up(random, random_graph(random, 6 - seed % 2), devices=2 + seed % 2))
    found = search(problem, inf)
    assert found.groups is not None
    total = cost_of(problem, found.groups).total_ns
    assert total == pytest.approx(min(cost_of(problem, groups).total_ns for groups in schedules(problem)))
    assert total == pytest.approx(found.lower_bound_ns)


@pytest.mark.parametrize("seed", range(4))
def test_exhaustion_is_what_going_through_every_order_finds(seed: int) -> None:
    random = Random(seed)
    problem = figures_of(*made_up(random, random_graph(random, 5), devices=2 + seed % 2))
    times = all_assignments_ns(problem)
    ways: dict[tuple[int, ...], float] = {}
    for groups in schedules(problem):
        place = {number: chosen for chosen, operations in groups for number in operations}
        assignment = tuple(place[number] for number in range(5))
        ways[assignment] = min(ways.get(assignment, inf), cost_of(problem, groups).total_ns)
    assert set(ways) == set(assignments(problem))
    for assignment, total in ways.items():
        assert times[assignment] == pytest.approx(total)
    assert sum(time < inf for time in times.flat) == len(ways)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("operations", range(1, 13))
def test_nothing_beats_it_over_all_assignments_of_up_to_twelve_operations_to_three_devices(
    operations: int, seed: int
) -> None:
    """Up to 531,441 assignments, each in its best order of steps."""
    random = Random(1000 * operations + seed)
    problem = figures_of(*made_up(random, random_graph(random, operations), devices=3))
    found = search(problem, inf)
    assert found.groups is not None
    times = all_assignments_ns(problem)
    assert times.size == 3**operations
    assert cost_of(problem, found.groups).total_ns == pytest.approx(float(times.min()))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("operations", "devices"), [(10, 2), (7, 3)])
def test_on_small_graphs_it_is_no_worse_than_the_best_of_all_grown_assignments(
    seed: int, operations: int, devices: int
) -> None:
    random = Random(seed)
    problem = figures_of(*made_up(random, random_graph(random, operations), devices))
    found = search(problem, inf)
    assert found.groups is not None
    total = cost_of(problem, found.groups).total_ns
    assert total <= cheapest_grown(problem) * (1 + 1e-9)
    assert total == pytest.approx(found.lower_bound_ns)


@pytest.mark.parametrize("seed", range(3))
def test_twelve_operations_on_two_devices_are_no_worse_than_the_best_of_all_assignments(seed: int) -> None:
    random = Random(100 + seed)
    problem = figures_of(*made_up(random, random_graph(random, 12), devices=2))
    found = search(problem, inf)
    assert found.groups is not None
    assert cost_of(problem, found.groups).total_ns <= cheapest_grown(problem) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_twelve_operations_on_three_devices_are_solved_exactly(seed: int) -> None:
    random = Random(seed)
    problem = figures_of(*made_up(random, random_graph(random, 12), devices=3))
    found = search(problem, inf)
    assert found.groups is not None
    assert cost_of(problem, found.groups).total_ns == pytest.approx(found.lower_bound_ns)


def test_what_it_finds_can_be_executed_in_order() -> None:
    random = Random(7)
    problem = figures_of(*made_up(random, random_graph(random, 40), devices=3))
    groups = search(problem, inf).groups
    assert groups is not None
    done: set[int] = set()
    for chosen, operations in groups:
        for number in operations:
            assert chosen in problem.allowed[number]
            assert problem.needs[number] <= done
            done.add(number)
    assert done == set(range(40))


def test_a_chain_is_solved_exactly_however_long() -> None:
    task, candidates = made_up(Random(1), chain_of(300), devices=3)
    problem = figures_of(task, candidates)
    found = search(problem, inf)
    assert found.groups is not None
    assert cost_of(problem, found.groups).total_ns == pytest.approx(found.lower_bound_ns)
    assert cost_of(problem, found.groups).total_ns == pytest.approx(cheapest_chain(problem))


def cheapest_chain(problem: Problem) -> float:
    """By dynamic programming over the device of the last operation."""
    first, *rest = range(len(problem.reads))
    start, *values = (problem.values[reads[0]] for reads in problem.reads)
    devices = range(len(problem.devices))
    best = [start.edge_ns[0][d] + problem.step_ns[d] + problem.operation_ns[first][d] for d in devices]
    for number, value in zip(rest, values, strict=True):
        best = [
            problem.operation_ns[number][d]
            + min(best[o] + (value.edge_ns[o + 1][d] + problem.step_ns[d] if o != d else 0.0) for o in devices)
            for d in devices
        ]
    (output,) = problem.writes[-1]
    return min(best[d] + problem.values[output].export_ns[d + 1] for d in devices)


def test_the_work_grows_as_the_number_of_operations() -> None:
    evaluated = {}
    for blocks in (10, 50, 200):
        problem = figures_of(*made_up(Random(1), repeated_block(blocks), devices=3))
        evaluated[blocks] = search(problem, inf, effort=0).evaluated
    # 64 transitions a level; the transitions of a state that has been begun are all evaluated.
    assert all(count <= 10 * blocks * (64 + 4 * 3) for blocks, count in evaluated.items())
    assert evaluated[200] <= 4.4 * evaluated[50] <= 4.4 * 5.5 * evaluated[10]


def test_what_was_left_out_for_want_of_width_bounds_what_could_be() -> None:
    task, candidates = made_up(Random(3), repeated_block(2), devices=3)
    problem = figures_of(task, candidates)
    narrow, wide = search(problem, inf, effort=0, narrow=8), search(problem, inf, effort=2_000_000)
    assert narrow.groups is not None
    assert wide.groups is not None
    exact = cost_of(problem, wide.groups).total_ns
    assert exact == pytest.approx(wide.lower_bound_ns)
    assert narrow.lower_bound_ns <= exact <= cost_of(problem, narrow.groups).total_ns


def test_it_finds_nothing_if_the_limit_is_the_optimum() -> None:
    problem = figures_of(*made_up(Random(5), chain_of(8), devices=2))
    best = search(problem, inf)
    assert best.groups is not None
    again = search(problem, cost_of(problem, best.groups).total_ns)
    assert again.groups is None
    assert again.lower_bound_ns == pytest.approx(best.lower_bound_ns)


def test_parallel_branches_go_together_however_many_there_are() -> None:
    """Fifty pairs, of which the first operation is for one device and the second for another: two steps are enough."""
    reads = [[0] if n % 2 == 0 else [n] for n in range(100)]
    first, second = ([1.0 if n % 2 == odd else None for n in range(100)] for odd in (0, 1))
    problem = figures_of(task_of(graph_of(reads), free), [device("a", first, 50.0), device("b", second, 50.0)])
    found = search(problem, inf)
    assert found.groups is not None
    assert [chosen for chosen, _ in found.groups] == [0, 1]


@pytest.mark.parametrize("seed", range(12))
def test_no_plan_is_below_the_floor(seed: int) -> None:
    random = Random(seed)
    problem = figures_of(*made_up(random, random_graph(random, 6), devices=2 + seed % 2))
    assert float(all_assignments_ns(problem).min()) >= floor_of(problem) * (1 - 1e-9)


def test_a_device_that_is_fastest_at_everything_needs_no_search() -> None:
    whole = [(0, tuple(range(50)))]
    problem = figures_of(
        task_of(chain_of(50), free), [device("fast", [3.0] * 50, 5.0), device("slow", [4.0] * 50, 5.0)]
    )
    time_ns = cost_of(problem, whole).total_ns
    found = search(problem, time_ns)
    assert (found.groups, found.evaluated) == (None, 0)
    assert found.lower_bound_ns == pytest.approx(time_ns)


def test_a_device_that_is_slower_at_one_operation_is_searched_against() -> None:
    figures = [device("fast", [3.0] * 50, 5.0), device("slow", [*[4.0] * 49, 2.9], 5.0)]
    problem = figures_of(task_of(chain_of(50), free), figures)
    time_ns = cost_of(problem, [(0, tuple(range(50)))]).total_ns
    found = search(problem, time_ns)
    assert found.groups is None
    assert found.evaluated > 0
    assert found.lower_bound_ns == pytest.approx(time_ns)
