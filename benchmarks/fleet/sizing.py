"""The fewest hosts that keep a promise, with each placement and each way to balance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.fleet.balancers import BalancingPolicy
from benchmarks.fleet.figures import HostFigures
from benchmarks.fleet.placement import PlacementError, PlacementPolicy, placed
from benchmarks.fleet.simulation import Simulated, simulate
from benchmarks.fleet.traces import RequestTrace

WARM_UP = 0.25
"""The share of the requests at the beginning that is not counted: queues are empty at first."""
_MOST_TIMES = 8
"""Fleets of more than so many times the hosts that the load keeps busy are not looked at."""
_SHARE_OF_BRACKET = 0.01


@dataclass(frozen=True, slots=True)
class Promise:
    """A share of the requests that is answered within a time."""

    percent: float
    """Per cent of the requests."""
    seconds: float
    """The time."""


@dataclass(frozen=True, slots=True)
class SizedFleet:
    """The fewest hosts that keep a promise, or why there are none."""

    placement: PlacementPolicy
    """Where models are."""
    balancing: BalancingPolicy
    """How hosts are chosen."""
    hosts: int | None
    """The fewest hosts; None if no number was found."""
    simulated: Simulated | None
    """How they fare; None without hosts."""
    reason: str = ""
    """Why there is no number."""


def sized(
    trace: RequestTrace,
    figures: HostFigures,
    placement: PlacementPolicy,
    balancing: BalancingPolicy,
    promise: Promise,
    copies: int = 2,
    seed: int = 0,
) -> SizedFleet:
    """Find the fewest hosts for a trace. The same requests are replayed over each number of hosts that is looked at."""
    least = busy_hosts(trace, figures)
    best: dict[int, Simulated] = {}
    reasons: list[str] = []

    def keeps(count: int) -> bool:
        try:
            where = placed(placement, count, trace.shares, figures, copies)
        except PlacementError as error:
            reasons.append(str(error))
            return False
        found = simulate(trace, figures, where, balancing, seed)
        if found.percentile(promise.percent, WARM_UP) <= promise.seconds:
            best[count] = found
            return True
        reasons.append(_shortfall(count, trace, figures, found, promise))
        return False

    hosts = fewest_hosts(keeps, least, _MOST_TIMES * least)
    if hosts is None:
        return SizedFleet(placement, balancing, None, None, reasons[-1])
    return SizedFleet(placement, balancing, hosts, best[hosts])


def busy_hosts(trace: RequestTrace, figures: HostFigures) -> int:
    """Return how many hosts the requests keep busy: no fewer can keep up."""
    counts: list[int] = np.bincount(trace.models % len(figures.kinds), minlength=len(figures.kinds)).tolist()
    work: float = sum(count * kind.mean_seconds for count, kind in zip(counts, figures.kinds, strict=True))
    front = len(trace.models) * figures.front_seconds / figures.fronts
    return max(1, math.ceil(max(work / figures.workers, front) / float(trace.instants[-1])))


def fewest_hosts(keeps: Callable[[int], bool], least: int, most: int) -> int | None:
    """Return the fewest hosts from ``least`` to ``most`` that keep the promise; None if not even ``most`` do.

    It takes for granted that more hosts keep what fewer keep, doubles until they do, and then halves the range. Beyond
    a hundred hosts it stops within one in a hundred, on the side that keeps the promise.
    """
    failed, count = least - 1, least
    while not keeps(count):
        if count >= most:
            return None
        failed, count = count, min(most, 2 * count)
    while count - failed > max(1, int(count * _SHARE_OF_BRACKET)):
        middle = (failed + count) // 2
        if keeps(middle):
            count = middle
        else:
            failed = middle
    return count


def utilisation(trace: RequestTrace, figures: HostFigures, found: Simulated) -> float:
    """Return the share of the time in which the device workers of the busiest host worked, above 1 if they lagged."""
    return float(found.busy_seconds.max()) / figures.workers / float(trace.instants[-1])


def _shortfall(hosts: int, trace: RequestTrace, figures: HostFigures, found: Simulated, promise: Promise) -> str:
    tail = found.percentile(promise.percent, WARM_UP)
    said = "refuses requests" if math.isinf(tail) else f"has a p{promise.percent:g} of {tail * 1e3:,.0f} ms"
    return f"a fleet of {hosts:,} {said}: its busiest host has {utilisation(trace, figures, found):.0%} of its work"
