"""What clients notice of a host that dies: one of two is killed while requests are under way."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.scaling.senders import Sender, SentRequests
from benchmarks.scaling.ways import Way

_SHOWN_CHARACTERS = 90


@dataclass(frozen=True, slots=True)
class Outage:
    """What became of the requests around the death of a host."""

    way: Way
    """How they went."""
    requests: int
    """Requests that began before or after it."""
    failed: int
    """Those that failed."""
    failing_seconds: float
    """From the death to the last failure; 0 if none failed."""
    longest_seconds: float
    """The longest time that a request took, whether it was answered or failed."""
    words: str
    """The most frequent error."""


def measure_outage(
    way: Way, model: str, concurrency: int, seconds: float, kill: Callable[[], None], at: float
) -> Outage:
    """Send requests for some seconds and kill a host ``at`` seconds after the beginning."""
    with Sender(way.destination) as sender:
        sender.keep_busy(model, concurrency, at).require_none_failed(way.title)
        death = threading.Timer(at, kill)
        death.start()
        try:
            sent = sender.keep_busy(model, concurrency, seconds)
        finally:
            death.join()
    return _outage(way, sent, at)


def _outage(way: Way, sent: SentRequests, at: float) -> Outage:
    failures = [float(end) for end, words in zip(sent.ended, sent.errors, strict=True) if words]
    counts = Counter(filter(None, sent.errors)).most_common(1)
    return Outage(
        way=way,
        requests=len(sent.errors),
        failed=sent.failed,
        failing_seconds=max(0.0, max(failures, default=at) - at),
        longest_seconds=float(np.max(sent.ended - sent.due)),
        words=counts[0][0][:_SHOWN_CHARACTERS] if counts else "",
    )
