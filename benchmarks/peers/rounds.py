"""Short windows in rounds, so that other load of the machine meets all contenders alike."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import numpy as np

from benchmarks.peers.contenders import Contender
from nnhal_tools.bench.processes import family, process_ns
from nnhal_tools.bench.serve import BenchError, Load, MeasurementWindow

Say = Callable[[str], None]
_STEP = 5
"""Each round begins this many contenders later, so that no contender always follows the same one."""


@dataclass(frozen=True, slots=True)
class Result:
    """Medians over the rounds."""

    model: str
    """Name of the model."""
    concurrency: int
    """Requests under way at a time."""
    contender: str
    """Name of the contender."""
    rate: float
    """Inferences per second."""
    p50_us: float
    """Median latency."""
    p99_us: float
    """99th percentile of the latency."""
    cpu_us: float | None
    """Processor time of the servers for a request; None if it has none."""
    spread: float
    """(Highest - lowest) / median of the rates."""


def run_rounds(
    model: str, contenders: Mapping[str, Contender], concurrency: int, seconds: float, rounds: int, say: Say
) -> list[Result]:
    """Measure all contenders in turn. One that fails is left out, with a message."""
    windows: dict[str, list[_Window]] = {}
    with ExitStack() as stack:
        loads: dict[str, Load] = {}
        for name, contender in contenders.items():
            try:
                loads[name] = stack.enter_context(Load(contender.target, concurrency))
                windows[name] = []
            except BenchError as error:
                say(f"{model}, concurrency {concurrency}: {name} is left out: {error}")
        for number in range(rounds):
            names = deque(loads)
            names.rotate(-number * _STEP)
            for name in names:
                try:
                    windows[name].append(_measured(loads[name], contenders[name].servers, seconds))
                except (BenchError, OSError) as error:
                    say(f"{model}, concurrency {concurrency}: {name} is left out: {error}")
                    del loads[name], windows[name]
            say(f"{model}, concurrency {concurrency}: round {number + 1} of {rounds}, load {os.getloadavg()[0]:.1f}")
    return [_result(model, concurrency, name, own) for name, own in windows.items()]


class _Window(NamedTuple):
    measured: MeasurementWindow
    cpu_us: float | None


def _measured(load: Load, servers: tuple[int, ...], seconds: float) -> _Window:
    """Measure a window. Raises BenchError, or OSError if a server has ended."""
    pids = [pid for server in servers for pid in family(server)]
    before = sum(map(process_ns, pids))
    window = load.measure(seconds)
    used_ns = sum(map(process_ns, pids)) - before
    return _Window(window, used_ns / len(window.latencies) / 1e3 if pids else None)


def _result(model: str, concurrency: int, name: str, windows: list[_Window]) -> Result:
    rates = [window.measured.rate for window in windows]
    rate = median(rates)
    cpu = [window.cpu_us for window in windows if window.cpu_us is not None]
    return Result(
        model=model,
        concurrency=concurrency,
        contender=name,
        rate=rate,
        p50_us=median(float(np.percentile(window.measured.latencies, 50)) for window in windows) / 1e3,
        p99_us=median(float(np.percentile(window.measured.latencies, 99)) for window in windows) / 1e3,
        cpu_us=median(cpu) if cpu else None,
        spread=(max(rates) - min(rates)) / rate,
    )
