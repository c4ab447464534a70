"""How a balancer chooses one of the hosts that may serve a request. It knows how many requests it has sent to each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from enum import StrEnum
from random import Random


class BalancingPolicy(StrEnum):
    """Names of the ways to choose."""

    ROUND_ROBIN = "round_robin"
    """The hosts of each model in turn."""
    RANDOM = "random"
    """Any host: what very many clients do together that each take the hosts in turn."""
    TWO_CHOICES = "two_choices"
    """Of two hosts at random, the one with fewer requests under way."""
    LEAST = "least"
    """The host with the fewest requests under way; of several, the one that has had as many for the longest time."""


class Balancer(ABC):
    """Chooses hosts, and counts the requests under way."""

    def __init__(self, hosts: int) -> None:
        self.under_way = [0] * hosts
        """Requests under way at each host."""

    @abstractmethod
    def choose(self, model: int, hosts: Sequence[int]) -> int:
        """Return one of the hosts of a model."""

    def begin(self, host: int) -> None:
        """Count a request that goes to a host."""
        self.under_way[host] += 1

    def end(self, host: int) -> None:
        """Count a request that a host has answered."""
        self.under_way[host] -= 1


def balancer(policy: BalancingPolicy, hosts: int, seed: int, are_alike: bool) -> Balancer:
    """Return a balancer. ``are_alike`` says that each host serves all models, which makes the choice of one cheaper."""
    if policy is BalancingPolicy.ROUND_ROBIN:
        return _RoundRobin(hosts, are_alike)
    if policy is BalancingPolicy.RANDOM:
        return _AtRandom(hosts, seed)
    if policy is BalancingPolicy.TWO_CHOICES:
        return _TwoChoices(hosts, seed)
    return _LeastOfAll(hosts) if are_alike else _Least(hosts)


class _RoundRobin(Balancer):
    def __init__(self, hosts: int, are_alike: bool) -> None:
        super().__init__(hosts)
        self._are_alike = are_alike
        self._turns: dict[int, int] = {}

    def choose(self, model: int, hosts: Sequence[int]) -> int:
        group = 0 if self._are_alike else model
        turn = self._turns.get(group, group)  # not all models begin with the same host
        self._turns[group] = turn + 1
        return hosts[turn % len(hosts)]


class _AtRandom(Balancer):
    def __init__(self, hosts: int, seed: int) -> None:
        super().__init__(hosts)
        self._random = Random(seed).random

    def choose(self, model: int, hosts: Sequence[int]) -> int:
        return hosts[int(self._random() * len(hosts))]


class _TwoChoices(_AtRandom):
    def choose(self, model: int, hosts: Sequence[int]) -> int:
        count = len(hosts)
        first = int(self._random() * count)
        if count == 1:
            return hosts[0]
        second = (first + 1 + int(self._random() * (count - 1))) % count
        one, other = hosts[first], hosts[second]
        return one if self.under_way[one] <= self.under_way[other] else other


class _Least(Balancer):
    """Compares the hosts of the model."""

    _MORE = 1 << 40
    """What a request under way weighs: more than there are turns in any trace."""

    def __init__(self, hosts: int) -> None:
        super().__init__(hosts)
        self._turn = hosts
        self._rank = list(range(hosts))

    def choose(self, model: int, hosts: Sequence[int]) -> int:
        return min(hosts, key=self._rank.__getitem__)

    def begin(self, host: int) -> None:
        self.under_way[host] += 1
        self._rank_anew(host)

    def end(self, host: int) -> None:
        self.under_way[host] -= 1
        self._rank_anew(host)

    def _rank_anew(self, host: int) -> None:
        self._turn += 1
        self._rank[host] = self.under_way[host] * self._MORE + self._turn


class _LeastOfAll(Balancer):
    """Keeps all hosts by their number of requests, so that a choice takes the same time however many there are."""

    def __init__(self, hosts: int) -> None:
        super().__init__(hosts)
        self._levels: list[OrderedDict[int, None]] = [OrderedDict.fromkeys(range(hosts))]
        self._lowest = 0

    def choose(self, model: int, hosts: Sequence[int]) -> int:
        while not self._levels[self._lowest]:
            self._lowest += 1
        return next(iter(self._levels[self._lowest]))

    def begin(self, host: int) -> None:
        count = self.under_way[host]
        self.under_way[host] = count + 1
        del self._levels[count][host]
        if count + 1 == len(self._levels):
            self._levels.append(OrderedDict())
        self._levels[count + 1][host] = None

    def end(self, host: int) -> None:
        count = self.under_way[host] = self.under_way[host] - 1
        del self._levels[count + 1][host]
        self._levels[count][host] = None
        self._lowest = min(self._lowest, count)
