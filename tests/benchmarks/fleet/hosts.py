"""Hosts and requests whose behaviour is known from theory."""

from __future__ import annotations

from functools import cache

import numpy as np

from benchmarks.fleet.balancers import BalancingPolicy
from benchmarks.fleet.figures import HostFigures, ModelKind
from benchmarks.fleet.placement import PlacementPolicy, placed
from benchmarks.fleet.simulation import Simulated, simulate
from benchmarks.fleet.traces import RequestTrace, made_trace, zipf_shares

ONE = zipf_shares(1, 1.0)


def host(*service: float, workers: int = 1, way: float = 0.0, **others: float) -> HostFigures:
    """Return a host of which only the device workers take time, a second or what is said, and that refuses nothing."""
    kinds = (ModelKind("kind", service or (1.0,), (1.0,), 1),)
    given = {"front_seconds": 0.0, "memory_bytes": 1, "most_requests": 1 << 40, **others}
    return HostFigures(kinds, workers=workers, way_seconds=(way,), **given)  # type: ignore[arg-type]  # whole numbers where they should be


@cache
def exponential(mean: float = 1.0, count: int = 2000) -> tuple[float, ...]:
    """Return values that are distributed exponentially: the quantiles in the middle of as many equal parts."""
    parts = (np.arange(count) + 0.5) / count
    values = -np.log1p(-parts)
    return tuple((values * mean / values.mean()).tolist())


def poisson(rate: float, count: int = 200_000) -> RequestTrace:
    """Return requests for one model."""
    return made_trace(rate, count, ONE, np.random.default_rng(7))


def simulated(trace: RequestTrace, figures: HostFigures, hosts: int = 1) -> Simulated:
    """Replay requests over hosts that all have all models, each request to the least loaded."""
    everywhere = placed(PlacementPolicy.EVERYWHERE, hosts, trace.shares, figures)
    return simulate(trace, figures, everywhere, BalancingPolicy.LEAST)
