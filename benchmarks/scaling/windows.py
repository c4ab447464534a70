"""Windows of all ways, measured in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import NamedTuple

import numpy as np

from benchmarks.rounds import Measure, ProcessorTime, Say, measure_in_turns
from benchmarks.scaling.senders import Sender, SentRequests
from benchmarks.scaling.ways import Way

_WARM_UP_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class WayResult:
    """One way with one model: medians over the windows."""

    way: Way
    """What was measured."""
    model: str
    """The model."""
    concurrency: int
    """Requests under way at a time."""
    rate: float
    """Answers per second."""
    p50_ms: float
    """Median latency."""
    p99_ms: float
    """99th percentile of the latency."""
    between_us: float
    """Processor time of what stands between, for a request."""
    spread: float
    """(Highest - lowest) / median of the median latencies."""


def measure_ways(
    ways: Sequence[Way], model: str, concurrency: int, seconds: float, rounds: int, say: Say
) -> list[WayResult]:
    """Measure all ways in rounds. One that fails is left out, with a message."""
    known = {way.title: way for way in ways}
    starts = {title: partial(_measuring, way, model, concurrency, seconds) for title, way in known.items()}
    found = measure_in_turns(f"{model}, concurrency {concurrency}", starts, rounds, say)
    return [_result(known[title], model, concurrency, windows) for title, windows in found.items()]


class _Window(NamedTuple):
    sent: SentRequests
    between_us: float


@contextmanager
def _measuring(way: Way, model: str, concurrency: int, seconds: float) -> Iterator[Measure[_Window]]:
    with Sender(way.destination) as sender:
        sender.keep_busy(model, concurrency, _WARM_UP_SECONDS).require_none_failed(way.title)

        def measure() -> _Window:
            used = ProcessorTime(way.processes)
            sent = sender.keep_busy(model, concurrency, seconds).require_none_failed(way.title)
            return _Window(sent, used.microseconds(len(sent.errors)) or 0.0)

        yield measure


def _result(way: Way, model: str, concurrency: int, windows: Sequence[_Window]) -> WayResult:
    middles = [float(np.percentile(window.sent.latencies, 50)) for window in windows]
    return WayResult(
        way=way,
        model=model,
        concurrency=concurrency,
        rate=median(window.sent.rate for window in windows),
        p50_ms=median(middles) * 1e3,
        p99_ms=median(float(np.percentile(window.sent.latencies, 99)) for window in windows) * 1e3,
        between_us=median(window.between_us for window in windows),
        spread=(max(middles) - min(middles)) / median(middles),
    )
