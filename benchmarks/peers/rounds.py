"""Results of all contenders, measured in turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import NamedTuple

import numpy as np

from benchmarks.peers.contenders import Contender
from benchmarks.rounds import Measure, ProcessorTime, Say, measure_in_turns
from benchmarks.serve import Load, MeasurementWindow


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
    starts = {name: partial(_measuring, each, concurrency, seconds) for name, each in contenders.items()}
    found = measure_in_turns(f"{model}, concurrency {concurrency}", starts, rounds, say)
    return [_result(model, concurrency, name, windows) for name, windows in found.items()]


class _Window(NamedTuple):
    measured: MeasurementWindow
    cpu_us: float | None


@contextmanager
def _measuring(contender: Contender, concurrency: int, seconds: float) -> Iterator[Measure[_Window]]:
    with Load([contender.target] * concurrency) as load:

        def measure() -> _Window:
            used = ProcessorTime(contender.servers)
            window = load.measure(seconds)
            return _Window(window, used.microseconds(len(window.latencies)))

        yield measure


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
