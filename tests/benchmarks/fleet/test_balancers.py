"""How balancers choose."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.fleet.balancers import BalancingPolicy, balancer
from benchmarks.fleet.placement import PlacementPolicy, placed
from benchmarks.fleet.simulation import simulate
from tests.benchmarks.fleet.hosts import ONE, exponential, host, poisson


def test_round_robin_takes_turns_and_models_do_not_all_begin_with_the_same_host() -> None:
    own = balancer(BalancingPolicy.ROUND_ROBIN, 3, 0, are_alike=False)
    assert [own.choose(0, [0, 1, 2]) for _ in range(4)] == [0, 1, 2, 0]
    assert own.choose(1, [0, 1, 2]) == 1
    alike = balancer(BalancingPolicy.ROUND_ROBIN, 3, 0, are_alike=True)
    assert [alike.choose(model, range(3)) for model in (0, 5, 5, 0)] == [0, 1, 2, 0]


@pytest.mark.parametrize("are_alike", [False, True])
def test_the_least_loaded_host_is_chosen(are_alike: bool) -> None:
    own = balancer(BalancingPolicy.LEAST, 4, 0, are_alike)
    draw = Random(1)
    under_way: list[int] = []
    for _ in range(2000):
        if under_way and draw.random() < 0.5:
            own.end(under_way.pop(draw.randrange(len(under_way))))
        host_number = own.choose(0, range(4))
        assert own.under_way[host_number] == min(own.under_way)
        own.begin(host_number)
        under_way.append(host_number)
    assert sum(own.under_way) == len(under_way)


def test_both_ways_to_find_the_least_loaded_host_choose_alike() -> None:
    one, other = (balancer(BalancingPolicy.LEAST, 5, 0, are_alike) for are_alike in (False, True))
    draw = Random(2)
    under_way: list[int] = []
    for _ in range(2000):
        if under_way and draw.random() < 0.5:
            ended = under_way.pop(draw.randrange(len(under_way)))
            one.end(ended)
            other.end(ended)
        chosen = one.choose(0, range(5))
        assert other.choose(0, range(5)) == chosen
        one.begin(chosen)
        other.begin(chosen)
        under_way.append(chosen)


def test_of_two_hosts_at_random_the_less_loaded_is_chosen() -> None:
    own = balancer(BalancingPolicy.TWO_CHOICES, 2, 0, are_alike=True)
    own.begin(1)
    assert {own.choose(0, [0, 1]) for _ in range(50)} == {0}
    assert own.choose(0, [1]) == 1


def test_knowing_more_of_the_hosts_makes_the_tail_shorter() -> None:
    figures = host(*exponential())
    everywhere = placed(PlacementPolicy.EVERYWHERE, 10, ONE, figures)
    trace = poisson(8.0, 40_000)
    tails = [
        simulate(trace, figures, everywhere, policy).percentile(99)
        for policy in (
            BalancingPolicy.LEAST,
            BalancingPolicy.TWO_CHOICES,
            BalancingPolicy.ROUND_ROBIN,
            BalancingPolicy.RANDOM,
        )
    ]
    assert tails == sorted(tails)
    assert tails[0] < 0.8 * tails[1] and tails[1] < 0.8 * tails[3]


def test_the_same_seed_gives_the_same_result() -> None:
    figures = host(*exponential())
    everywhere = placed(PlacementPolicy.EVERYWHERE, 3, ONE, figures)
    trace = poisson(2.0, 5_000)
    one, other = (simulate(trace, figures, everywhere, BalancingPolicy.RANDOM, 5) for _ in range(2))
    assert one.latencies.tolist() == other.latencies.tolist()
