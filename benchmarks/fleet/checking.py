"""The simulation beside reality: the same requests, to two simulated hosts and to two that run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks.fleet.balancers import BalancingPolicy
from benchmarks.fleet.figures import HostFigures, ModelKind
from benchmarks.fleet.measuring import measured_requests
from benchmarks.fleet.placement import PlacementPolicy, placed
from benchmarks.fleet.simulation import simulate
from benchmarks.fleet.traces import Bursts, RequestTrace, made_trace
from benchmarks.scaling.haproxy import HaproxyError, running_haproxy
from benchmarks.scaling.hosts import LONG, SHORT, WORKERS, running_hosts
from benchmarks.scaling.senders import Sender
from benchmarks.scaling.ways import Way, ways_by_client, ways_by_haproxy

PERCENTS = (50, 90, 99)
_HOSTS = 2
_MODELS = (SHORT, LONG)
_SHARES = np.array([0.8, 0.2])
_LOADS = (
    ("Poisson, 50 % load", 0.5, None),
    ("Poisson, 80 % load", 0.8, None),
    ("bursts, 55 % load", 0.55, Bursts(factor=3.0)),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One trace, one way."""

    trace: str
    """What the requests are like."""
    way: str
    """How they went to the hosts."""
    requests: int
    """How many there were."""
    failed: int
    """How many of the real ones failed."""
    measured: tuple[float, ...]
    """Seconds, at each of PERCENTS."""
    simulated: tuple[float, ...]
    """Seconds, at each of PERCENTS."""


def compared(
    root: Path, milliseconds: float, seconds: float, seed: int, say: Callable[[str], None]
) -> list[Comparison]:
    """Replay traces of some seconds each over real and simulated hosts.

    Raises BenchError if the hosts do not start, or if requests fail before the replay.
    """
    found: list[Comparison] = []
    with ExitStack() as stack:
        hosts = stack.enter_context(running_hosts(root, _HOSTS, milliseconds))
        ways = [(way, BalancingPolicy.ROUND_ROBIN) for way in ways_by_client(hosts)]
        try:
            through = ways_by_haproxy(stack.enter_context(running_haproxy(root, hosts)))
            ways += [(way, BalancingPolicy.LEAST) for way in through]
        except HaproxyError as error:
            say(f"HAProxy is left out: {error}")
        for way, policy in ways:
            with Sender(way.destination) as sender:
                figures = _measured(sender, [host.pids["framework"] for host in hosts])
                for title, load, bursts in _LOADS:
                    trace = _trace(figures, load, bursts, seconds, seed)
                    found.append(_replayed(sender, way, policy, figures, trace, title))
                    say(f"{way.title}: {title}")
    return found


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    """Return a table of the latencies, and of how far the simulated ones are off."""
    table = Table("requests", "way", title="Two hosts: measured and simulated latencies")
    for name in ("number", "failed", *(f"p{percent}" for percent in PERCENTS)):
        table.add_column(name, justify="right")
    for one in comparisons:
        cells = [
            f"{real * 1e3:.0f} and {made * 1e3:.0f} ms ({made / real - 1:+.0%})"
            for real, made in zip(one.measured, one.simulated, strict=True)
        ]
        table.add_row(one.trace, one.way, str(one.requests), str(one.failed), *cells)
    return table


def _measured(sender: Sender, frameworks: Sequence[int]) -> HostFigures:
    requests = measured_requests(sender, frameworks, _MODELS, _HOSTS * WORKERS, seconds=1.0, rounds=2)
    kinds = tuple(ModelKind(name, requests.service_seconds[name], (0.0,), 1) for name in _MODELS)
    return HostFigures(kinds, requests.front_seconds, requests.way_seconds, WORKERS, memory_bytes=len(kinds))


def _trace(figures: HostFigures, load: float, bursts: Bursts | None, seconds: float, seed: int) -> RequestTrace:
    """Make requests that take a share of the time of all device workers."""
    means = np.array([kind.mean_seconds for kind in figures.kinds])
    rate = load * _HOSTS * figures.workers / float(_SHARES @ means)
    return made_trace(rate, round(rate * seconds), _SHARES, np.random.default_rng(seed), bursts)


def _replayed(
    sender: Sender, way: Way, policy: BalancingPolicy, figures: HostFigures, trace: RequestTrace, title: str
) -> Comparison:
    names = [_MODELS[model] for model in trace.models.tolist()]
    sent = sender.replay(trace.instants.tolist(), names)
    everywhere = placed(PlacementPolicy.EVERYWHERE, _HOSTS, trace.shares, figures)
    made = simulate(trace, figures, everywhere, policy)
    return Comparison(
        trace=title,
        way=way.title,
        requests=len(sent.errors),
        failed=sent.failed,
        measured=tuple(float(np.percentile(sent.latencies, percent)) for percent in PERCENTS),
        simulated=tuple(made.percentile(percent) for percent in PERCENTS),
    )
