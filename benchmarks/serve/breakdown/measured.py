"""Three series of the same requests: undisturbed, with every request traced, and with system calls counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.processes import SystemCalls, TracingRefusedError, counting, family
from benchmarks.serve.breakdown.stages import StageTime, direct_stages, traced_stages
from benchmarks.serve.breakdown.usage import UsageOfRole, UsageSnapshot, usage_between
from benchmarks.serve.load import Load
from benchmarks.serve.server import BenchServer
from benchmarks.serve.statistics import statistics_of
from benchmarks.serve.target import Target, Transport

CLIENT = "client"
_COUNTED_SECONDS = 1.0
"""At most: requests are many times slower then, but their calls are always the same."""


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Where the time of a target's requests goes. All figures are of one request."""

    target: Target
    """What was measured."""
    concurrency: int
    """Requests under way at a time; the stages over the protocol are those of one at a time."""
    requests: int
    """Requests of the undisturbed series, from which all figures are that name no other series."""
    rate: float
    """Requests per second."""
    p50_us: float
    """Median latency."""
    mean_us: float
    """Mean latency."""
    stages: list[StageTime]
    """What happens one after the other; the means add up to the whole."""
    usage: list[UsageOfRole]
    """What each kind of thread of each process takes."""
    calls: dict[str, dict[str, float]] | None
    """System calls by name and process; None if they could not be counted."""
    uncounted: str
    """Why they could not be counted, empty if they were."""

    def as_dict(self) -> dict[str, object]:
        """The breakdown for JSON."""
        values = asdict(self)
        values["target"]["transport"] = str(self.target.transport)
        return values


def break_down(target: Target, concurrency: int, server: BenchServer, seconds: float) -> Breakdown:
    """Measure for so many seconds each. Raises BenchError or OSError."""
    with Load([target] * concurrency) as load, statistics_of(target) as read:
        load.measure(min(1.0, seconds))
        processes = _processes(server, load)
        statistics, before = read(), UsageSnapshot.of(processes)
        window = load.measure(seconds)
        after = UsageSnapshot.of(processes)
        ended = read()
        requests = len(window.latencies)
        try:
            with counting([pid for pids in processes.values() for pid in pids]) as calls:
                counted = len(load.measure(min(seconds, _COUNTED_SECONDS)).latencies)
        except TracingRefusedError as error:
            calls, counted, uncounted = None, 0, str(error)
        else:
            uncounted = ""
    if target.transport is Transport.NATIVE:
        during = ended.since(statistics) if ended is not None and statistics is not None else None
        stages = direct_stages(window, during)
    else:
        stages = traced_stages(target, server, seconds)
    return Breakdown(
        target=target,
        concurrency=concurrency,
        requests=requests,
        rate=window.rate,
        p50_us=float(np.median(window.latencies)) / 1e3,
        mean_us=float(np.mean(window.latencies)) / 1e3,
        stages=stages,
        usage=usage_between(before, after, requests, calls, counted),
        calls=None if calls is None else _by_name(calls, processes, counted),
        uncounted=uncounted,
    )


def _processes(server: BenchServer, load: Load) -> Mapping[str, list[int]]:
    """The processes by what they are."""
    return {CLIENT: load.pids, **{name: family(pid) for name, pid in server.processes.items()}}


def _by_name(calls: SystemCalls, processes: Mapping[str, list[int]], requests: int) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    names = {pid: name for name, pids in processes.items() for pid in pids}
    for (pid, _, call), count in calls.counts.items():
        row = found.setdefault(call, dict.fromkeys(processes, 0.0))
        row[names[pid]] += count / requests
    return found
