"""Windows of all ways, measured in turn, and the measurements as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import NamedTuple

import numpy as np
from rich.table import Table

from benchmarks.rounds import Measure, ProcessorTime, Say, measure_in_turns
from benchmarks.scaling.outages import Outage
from benchmarks.scaling.senders import Sender, SentRequests
from benchmarks.scaling.ways import ALONE, Way

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


def overhead_table(results: Sequence[WayResult]) -> Table:
    """Return a table of latencies, one request at a time, beside those of one host without anything between."""
    table = Table("model", "way", title="One request at a time: medians of the windows")
    for name in ("p50", "more than one host", "p99", "processor time between", "spread"):
        table.add_column(name, justify="right")
    for result in results:
        alone = _alone(results, result)
        more = "" if alone is None or alone is result else f"{result.p50_ms - alone.p50_ms:+.2f} ms"
        between = f"{result.between_us:,.0f} µs" if result.way.processes else ""
        latencies = (f"{result.p50_ms:.2f} ms", more, f"{result.p99_ms:.2f} ms")
        table.add_row(result.model, result.way.title, *latencies, between, f"{result.spread:.0%}")
    return table


def throughput_table(results: Sequence[WayResult]) -> Table:
    """Return a table of rates, also as multiples of one host's."""
    table = Table("model", "way", "at a time", title="Two hosts whose devices are the limit: medians of the windows")
    for name in ("answers/s", "of one host's", "p50", "p99"):
        table.add_column(name, justify="right")
    for result in results:
        alone = _alone(results, result)
        ratio = "" if alone is None else f"{result.rate / alone.rate:.2f}"
        latencies = (f"{result.p50_ms:.1f} ms", f"{result.p99_ms:.1f} ms")
        table.add_row(result.model, result.way.title, str(result.concurrency), f"{result.rate:.0f}", ratio, *latencies)
    return table


def outage_table(outages: Sequence[Outage]) -> Table:
    """Return a table of what was lost when one of two hosts was killed."""
    table = Table("way", title="One of two hosts is killed under load")
    for name in ("requests", "failed", "failures for", "longest request"):
        table.add_column(name, justify="right")
    table.add_column("error")
    for outage in outages:
        seconds = (f"{outage.failing_seconds:.2f} s", f"{outage.longest_seconds:.2f} s")
        table.add_row(outage.way.title, str(outage.requests), str(outage.failed), *seconds, outage.words)
    return table


def _alone(results: Sequence[WayResult], beside: WayResult) -> WayResult | None:
    """Find the result of one host with the same model and protocol."""
    protocol = beside.way.destination.protocol
    for result in results:
        if (result.way.name, result.model, result.way.destination.protocol) == (ALONE, beside.model, protocol):
            return result
    return None
