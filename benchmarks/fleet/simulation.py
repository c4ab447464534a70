"""Requests replayed over hosts, event by event.

A request goes to the host that the balancer chooses. It waits for a front of that host, then, if its model is not
loaded there, for the model, then for a device worker: each of these serves in the order in which requests come. A host
loads one model at a time. The same arguments give the same result.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.fleet.balancers import BalancingPolicy, balancer
from benchmarks.fleet.figures import HostFigures
from benchmarks.fleet.placement import Placement
from benchmarks.fleet.traces import RequestTrace

_PASSED, _LOADED, _ANSWERED = range(3)
"""What happens: a request has passed a front, a model is loaded, a request is answered."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """What became of the requests, in their order."""

    latencies: NDArray[np.float64]
    """Seconds; infinite for a request that its host refused."""
    hosts: NDArray[np.int64]
    """The host of each request."""
    found: NDArray[np.int64]
    """How many requests were under way at that host when it came."""
    busy_seconds: NDArray[np.float64]
    """For each host, the time that its device workers worked, in all."""
    loads: int
    """Models that were loaded on demand."""

    @property
    def refused(self) -> int:
        """Requests that were refused."""
        return int(np.isinf(self.latencies).sum())

    def percentile(self, percent: float, since: float = 0.0) -> float:
        """Return a percentile of the latency in seconds, without the first requests: a share of all of them."""
        counted = self.latencies[int(len(self.latencies) * since) :]
        return float(np.percentile(counted, percent, method="inverted_cdf"))


def simulate(
    trace: RequestTrace, figures: HostFigures, placement: Placement, policy: BalancingPolicy, seed: int = 0
) -> Simulated:
    """Replay a trace."""
    return _Simulation(trace, figures, placement, policy, seed).run()


class _Host:
    """One host's queues. Servers that are alike are the instants at which each of them is free, as a heap."""

    __slots__ = ("fronts", "is_loading", "loaded", "to_load", "waiting", "workers")

    def __init__(self, figures: HostFigures, loaded: LoadedModels) -> None:
        self.fronts = [0.0] * figures.fronts
        self.workers = [0.0] * figures.workers
        self.loaded = loaded
        self.waiting: dict[int, list[int]] = {}
        """The requests that wait for each model that is not loaded."""
        self.to_load: deque[int] = deque()
        self.is_loading = False


class _Simulation:
    def __init__(
        self, trace: RequestTrace, figures: HostFigures, placement: Placement, policy: BalancingPolicy, seed: int
    ) -> None:
        sizes = [figures.kind_of(model).memory_bytes for model in range(len(placement.hosts))]
        self._figures, self._placement = figures, placement
        self._hosts = [
            _Host(figures, LoadedModels(figures.memory_bytes, sizes.__getitem__, loaded)) for loaded in placement.loaded
        ]
        self._generator = np.random.default_rng(seed)
        count = len(self._hosts)
        are_alike = all(len(hosts) == count for hosts in placement.hosts)
        self._balancer = balancer(policy, count, seed, are_alike)
        self._instants: list[float] = trace.instants.tolist()
        self._models: list[int] = trace.models.tolist()
        self._service = self._drawn_services(trace.models)
        self._way: list[float] = self._generator.choice(np.array(figures.way_seconds), len(self._models)).tolist()
        self._chosen = [0] * len(self._models)
        self._found = [0] * len(self._models)
        self._latencies = [0.0] * len(self._models)
        self._busy = [0.0] * count
        self._loads = 0
        self._events: list[tuple[float, int, int]] = []

    def run(self) -> Simulated:
        """Take arrivals and events in the order of time."""
        events, pop = self._events, heapq.heappop
        happen = (self._pass, self._end_load, self._answer)
        for request, instant in enumerate(self._instants):
            while events and events[0][0] <= instant:
                now, what, number = pop(events)
                happen[what](now, number)
            self._arrive(instant, request)
        while events:
            now, what, number = pop(events)
            happen[what](now, number)
        return Simulated(
            np.array(self._latencies), np.array(self._chosen), np.array(self._found), np.array(self._busy), self._loads
        )

    def _arrive(self, now: float, request: int) -> None:
        model = self._models[request]
        host = self._balancer.choose(model, self._placement.hosts[model])
        found = self._balancer.under_way[host]
        self._chosen[request], self._found[request] = host, found
        if found >= self._figures.most_requests:
            self._latencies[request] = np.inf
            return
        self._balancer.begin(host)
        fronts = self._hosts[host].fronts
        passed = max(now, fronts[0]) + self._figures.front_seconds
        heapq.heapreplace(fronts, passed)
        heapq.heappush(self._events, (passed, _PASSED, request))

    def _pass(self, now: float, request: int) -> None:
        number, model = self._chosen[request], self._models[request]
        host = self._hosts[number]
        if host.loaded.use(model):
            self._work(now, request, number)
        elif model in host.waiting:
            host.waiting[model].append(request)
        else:
            host.waiting[model] = [request]
            host.to_load.append(model)
            self._begin_load(now, number)

    def _work(self, now: float, request: int, number: int) -> None:
        workers, seconds = self._hosts[number].workers, self._service[request]
        answered = max(now, workers[0]) + seconds
        heapq.heapreplace(workers, answered)
        self._busy[number] += seconds
        heapq.heappush(self._events, (answered, _ANSWERED, request))

    def _answer(self, now: float, request: int) -> None:
        number = self._chosen[request]
        self._latencies[request] = now - self._instants[request] + self._way[request]
        self._balancer.end(number)
        host = self._hosts[number]
        host.loaded.release(self._models[request])
        if host.to_load:
            self._begin_load(now, number)

    def _begin_load(self, now: float, number: int) -> None:
        """Load the next model if none is being loaded. It waits until requests of others end if all are in use."""
        host = self._hosts[number]
        if host.is_loading or not host.to_load or not host.loaded.make_room(host.to_load[0]):
            return
        host.is_loading = True
        self._loads += 1
        seconds = self._figures.kind_of(host.to_load[0]).load_seconds
        loaded = now + seconds[int(self._generator.integers(len(seconds)))]
        heapq.heappush(self._events, (loaded, _LOADED, number))

    def _end_load(self, now: float, number: int) -> None:
        host = self._hosts[number]
        host.is_loading = False
        model = host.to_load.popleft()
        host.loaded.add(model)
        for request in host.waiting.pop(model):
            host.loaded.use(model)
            self._work(now, request, number)
        self._begin_load(now, number)

    def _drawn_services(self, models: NDArray[np.int64]) -> list[float]:
        """Draw each request's time on a device worker from those of its model's kind."""
        kinds = self._figures.kinds
        seconds = np.empty(len(models))
        for number, kind in enumerate(kinds):
            own = models % len(kinds) == number
            seconds[own] = self._generator.choice(np.array(kind.service_seconds), int(own.sum()))
        drawn: list[float] = seconds.tolist()
        return drawn


class LoadedModels:
    """What one host has loaded. A model with requests under way is not unloaded."""

    def __init__(self, memory_bytes: int, size_of: Callable[[int], int], loaded: Sequence[int]) -> None:
        """``loaded`` is there to begin with, the first to be unloaded first. Raises ValueError if it does not fit."""
        self._room = memory_bytes - sum(map(size_of, loaded))
        if self._room < 0:
            raise ValueError(f"models of {memory_bytes - self._room:,} bytes on a host that has {memory_bytes:,}")
        self._size_of = size_of
        self._in_use: OrderedDict[int, int] = OrderedDict.fromkeys(loaded, 0)

    @property
    def free_bytes(self) -> int:
        """Memory that no model has."""
        return self._room

    def use(self, model: int) -> bool:
        """Begin a request if the model is loaded; return whether it is."""
        count = self._in_use.get(model)
        if count is None:
            return False
        self._in_use[model] = count + 1
        self._in_use.move_to_end(model)
        return True

    def release(self, model: int) -> None:
        """End a request."""
        self._in_use[model] -= 1

    def make_room(self, model: int) -> bool:
        """Unload idle models until another fits, and take its memory; return False and unload none if it cannot fit."""
        size, found, idle = self._size_of(model), self._room, []
        for other, count in self._in_use.items():
            if found >= size:
                break
            if count == 0:
                idle.append(other)
                found += self._size_of(other)
        if found < size:
            return False
        for other in idle:
            del self._in_use[other]
        self._room = found - size
        return True

    def add(self, model: int) -> None:
        """A model for which there was made room is loaded now."""
        self._in_use[model] = 0
