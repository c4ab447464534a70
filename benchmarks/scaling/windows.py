"""Windows of all ways in turn, so that other load of the machine meets all alike."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median

import numpy as np

from benchmarks.scaling.senders import Sender, SenderError, SentRequests
from benchmarks.scaling.ways import Way
from nnhal_tools.bench.processes import family, process_ns

Say = Callable[[str], None]
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
    found: dict[str, list[_Window]] = {}
    known = {way.title: way for way in ways}
    with ExitStack() as stack:
        senders: dict[str, Sender] = {}
        for title, way in known.items():
            try:
                sender = stack.enter_context(Sender(way.destination))
                sender.keep_busy(model, concurrency, _WARM_UP_SECONDS).require_none_failed(title)
                senders[title], found[title] = sender, []
            except SenderError as error:
                say(f"{model}: {title} is left out: {error}")
        for number in range(rounds):
            turns = deque(senders)
            turns.rotate(-number)
            for title in turns:
                try:
                    found[title].append(_measured(known[title], senders[title], model, concurrency, seconds))
                except SenderError as error:
                    del senders[title], found[title]
                    say(f"{model}: {title} is left out: {error}")
            say(f"{model}, {concurrency} at a time: round {number + 1} of {rounds}")
    return [_result(known[title], model, concurrency, own) for title, own in found.items()]


@dataclass(frozen=True, slots=True)
class _Window:
    sent: SentRequests
    between_us: float


def _measured(way: Way, sender: Sender, model: str, concurrency: int, seconds: float) -> _Window:
    pids = [pid for each in way.processes for pid in family(each)]
    before = sum(map(process_ns, pids))
    sent = sender.keep_busy(model, concurrency, seconds).require_none_failed(way.title)
    return _Window(sent, (sum(map(process_ns, pids)) - before) / len(sent.errors) / 1e3)


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
