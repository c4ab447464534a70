from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from nnhal_service.partition import Candidate, Options, Partitioning, Pin, Strategy, partition
from nnhal_service.partition.objective import cost_of
from nnhal_service.partition.search import search
from nnhal_service.partition.units import contracted, with_whole_units
from tests.service.exhaustion import all_assignments_ns
from tests.service.planning import chain_of, device, figures_of, free, graph_of, made_up, random_graph, task_of

CPU = Options(cpu="cpu")
NNAPI = Options(cpu="cpu", strategy=Strategy.NNAPI)


def groups(partitioning: Partitioning) -> list[tuple[str, tuple[int, ...]]]:
    return [(step.device, step.operations) for step in partitioning.plan.steps]


def npu(*costs: float, together: tuple[tuple[int, ...], ...], ratio: float = 1.0) -> Candidate:
    return replace(device("npu", costs, ratio=ratio), together=together)


def test_an_island_is_not_cut_though_its_parts_would_be_cheaper_on_two_devices() -> None:
    """The device prices the island at its first operation."""
    task = task_of(chain_of(4), free)
    cpu = device("cpu", (100, 5, 100, 100))
    assert groups(partition(task, [npu(1, 50, 1, 1, together=()), cpu], CPU))[0] == ("npu", (0,))
    assert groups(partition(task, [npu(1, 50, 1, 1, together=((1, 2),)), cpu], CPU)) == [("npu", (0, 1, 2, 3))]


def test_by_nnapis_rule_an_island_goes_where_its_first_operation_is_best() -> None:
    task = task_of(chain_of(4), free)
    island = npu(1, 1, 1, 1, together=((1, 2),), ratio=0.5)
    assert groups(partition(task, [island, device("cpu", (1, 1, 1, 1))], NNAPI)) == [("npu", (0, 1, 2, 3))]


@pytest.mark.parametrize("options", [CPU, NNAPI])
def test_the_branches_of_an_island_are_in_one_step(options: Options) -> None:
    """Operations 1 and 3 are an island's first: 1 could run before 2, which only the CPU takes, and 3 only after it."""
    model = graph_of([[0], [1], [1], [3], [2, 4]])
    island = npu(1, 1, 0, 1, 1, together=((1, 3, 4),), ratio=0.5)
    island = replace(island, refusals={2: "no"})
    plan = partition(task_of(model, free), [island, device("cpu", (90, 90, 90, 90, 90))], options)
    assert groups(plan) == [("npu", (0,)), ("cpu", (2,)), ("npu", (1, 3, 4))]


def test_a_device_that_may_not_have_all_of_an_island_has_nothing_of_it() -> None:
    task = task_of(chain_of(3), free)
    island = npu(1, 1, 1, together=((0, 1),))
    cpu = device("cpu", (9, 9, 9))
    for candidate, pins in ((island.refusing({1: "no"}), ()), (island, (Pin("index:1", "cpu"),))):
        found, units = with_whole_units(task.model, task.names, [candidate, cpu], pins)
        assert not units
        assert "together with operation 1" in found[0].refusals[0]
        chosen = partition(task, [candidate, cpu], replace(CPU, pins=pins))
        assert ("npu", (0, 1, 2)) not in groups(chosen) and groups(chosen)[0][0] == "cpu"


def test_islands_of_two_devices_that_overlap_are_one_if_a_device_takes_it() -> None:
    task = task_of(chain_of(3), free)
    first, second = npu(1, 1, 1, together=((0, 1),)), replace(device("b", (1, 1, 1)), together=((1, 2),))
    _, units = with_whole_units(task.model, task.names, [first, second], ())
    assert units == ((0, 1, 2),)
    first, second = first.refusing({2: "no"}), second.refusing({0: "no"})
    found, units = with_whole_units(task.model, task.names, [first, second], ())
    assert units == ((0, 1),)
    assert set(found[1].refusals) == {0, 1, 2}


def test_operations_whose_results_others_read_are_no_unit() -> None:
    task = task_of(graph_of([[0], [1], [1]]), free)
    found, units = with_whole_units(task.model, task.names, [npu(1, 1, 1, together=((0, 1),))], ())
    assert not units
    assert set(found[0].refusals) == {0, 1}


@pytest.mark.parametrize("seed", range(8))
def test_with_units_nothing_beats_the_plan_over_all_assignments_that_keep_them(seed: int) -> None:
    random = Random(seed)
    model = random_graph(random, 9)
    task, candidates = made_up(random, model, devices=2)
    chains = [(n, n + 1) for n in range(8) if model.main.operations[n + 1].inputs == model.main.operations[n].outputs]
    asked = [replace(candidates[0], together=tuple(chains)), candidates[1]]
    problem = figures_of(task, candidates)
    _, units = with_whole_units(model, task.names, asked, ())
    small = contracted(problem, units)
    assert sorted(small.members_of(range(len(small.reads)))) == list(range(9))
    found = search(small, float("inf"))
    assert found.groups is not None
    times = all_assignments_ns(small)
    assert cost_of(small, found.groups).total_ns == pytest.approx(float(times.min()))
    expanded = [(number, small.members_of(operations)) for number, operations in found.groups]
    assert cost_of(problem, expanded).total_ns == pytest.approx(float(times.min()))
