from __future__ import annotations

from random import Random

import pytest

from nnhal_service.partition.grow import grow
from nnhal_service.partition.merge import merge_small
from tests.service.planning import chain_of, device, figures_of, free, graph_of, made_up, random_graph, task_of


def test_a_small_group_goes_to_the_neighbour_that_is_fastest_for_it() -> None:
    candidates = [device("cpu", [9] * 5), device("slow", [5] * 5), device("fast", [3] * 5), device("tiny", [1] * 5)]
    problem = figures_of(task_of(chain_of(5), free), candidates)
    groups = [(1, (0, 1)), (3, (2,)), (2, (3, 4))]
    assert merge_small(problem, groups, 2, "cpu") == ((1, (0, 1)), (2, (2, 3, 4)))
    assert merge_small(problem, groups, 1, "cpu") == tuple(groups)


def test_it_goes_to_the_cpu_if_no_neighbour_takes_it() -> None:
    candidates = [device("cpu", [9] * 5), device("a", [1, 1, None, 1, 1]), device("b", [1] * 5)]
    problem = figures_of(task_of(chain_of(5), free), candidates)
    groups = [(1, (0, 1)), (2, (2,)), (1, (3, 4))]
    assert merge_small(problem, groups, 2, "cpu") == ((1, (0, 1)), (0, (2,)), (1, (3, 4)))


def test_it_stays_if_no_other_device_may_take_it() -> None:
    candidates = [device("cpu", [9, None, 9]), device("a", [None, 1, None])]
    problem = figures_of(task_of(chain_of(3), free), candidates)
    groups = ((0, (0,)), (1, (1,)), (0, (2,)))
    assert merge_small(problem, groups, 2, "cpu") == groups


def test_groups_on_the_cpu_may_be_small() -> None:
    problem = figures_of(task_of(chain_of(3), free), [device("cpu", [9] * 3), device("a", [1] * 3)])
    groups = ((1, (0, 1)), (0, (2,)))
    assert merge_small(problem, groups, 2, "cpu") == groups


def test_two_small_neighbours_do_not_change_places() -> None:
    problem = figures_of(
        task_of(chain_of(2), free), [device("cpu", [9] * 2), device("a", [1] * 2), device("b", [1] * 2)]
    )
    assert merge_small(problem, [(1, (0,)), (2, (1,))], 2, "cpu") == ((2, (0, 1)),)


@pytest.mark.parametrize("seed", range(10))
def test_afterwards_what_is_small_is_on_the_cpu_or_has_nowhere_to_go(seed: int) -> None:
    random = Random(seed)
    problem = figures_of(*made_up(random, random_graph(random, 30), devices=4))
    devices = [random.choice(sorted(able)) for able in problem.allowed]
    groups = merge_small(problem, grow(problem.needs, devices), 3, "d0")
    assert sorted(number for _, operations in groups for number in operations) == list(range(30))
    assert all(chosen in problem.allowed[number] for chosen, operations in groups for number in operations)
    # d0 takes everything, so nothing else needs to stay small
    assert all(len(operations) >= 3 for chosen, operations in groups if chosen != 0)


def test_neighbours_are_those_that_read_as_well() -> None:
    candidates = [device("cpu", [9] * 4), device("a", [1] * 4), device("b", [1] * 4)]
    problem = figures_of(task_of(graph_of([[0], [1], [2], [3]]), free), candidates)
    assert merge_small(problem, [(1, (0,)), (2, (1, 2, 3))], 2, "cpu") == ((2, (0, 1, 2, 3)),)
