"""Rounds of short windows, one for each contender, so that other load on the machine affects all alike."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median

import numpy as np

from nnhal_tools.bench.serve import BenchError, Load, Target, Window

Say = Callable[[str], None]
_STEP = 5
"""How many contenders later each round begins, so that a busy one does not always precede the same."""


@dataclass(frozen=True, slots=True)
class Result:
    """A contender's figures on one model, as medians over the rounds."""

    model: str
    """The model's name."""
    concurrency: int
    """Clients that send requests at the same time."""
    contender: str
    """The contender's name."""
    rate: float
    """Inferences per second."""
    p50_us: float
    """Median latency in microseconds."""
    p99_us: float
    """99th percentile of the latency in microseconds."""
    spread: float
    """(highest - lowest) / median of the rounds' rates."""


def run_rounds(
    model: str, contenders: Mapping[str, Target], concurrency: int, seconds: float, rounds: int, say: Say
) -> list[Result]:
    """Measure all contenders. One that fails is left out, and ``say`` gets the reason."""
    windows: dict[str, list[Window]] = {}
    with ExitStack() as stack:
        loads: dict[str, Load] = {}
        for name, target in contenders.items():
            try:
                loads[name] = stack.enter_context(Load(target, concurrency))
                windows[name] = []
            except BenchError as error:
                say(f"{model}, concurrency {concurrency}: {name} is left out: {error}")
        for number in range(rounds):
            names = deque(loads)
            names.rotate(-number * _STEP)
            for name in names:
                try:
                    windows[name].append(loads[name].measure(seconds))
                except BenchError as error:
                    say(f"{model}, concurrency {concurrency}: {name} is left out: {error}")
                    del loads[name], windows[name]
            say(f"{model}, concurrency {concurrency}: round {number + 1} of {rounds}, load {os.getloadavg()[0]:.1f}")
    return [_result(model, concurrency, name, own) for name, own in windows.items()]


def _result(model: str, concurrency: int, name: str, windows: list[Window]) -> Result:
    rates = [window.rate for window in windows]
    rate = median(rates)
    return Result(
        model=model,
        concurrency=concurrency,
        contender=name,
        rate=rate,
        p50_us=median(float(np.percentile(window.latencies, 50)) for window in windows) / 1e3,
        p99_us=median(float(np.percentile(window.latencies, 99)) for window in windows) / 1e3,
        spread=(max(rates) - min(rates)) / rate,
    )
