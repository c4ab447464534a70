"""What requests notice of the dashboard."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median, quantiles

from rich.table import Table

from benchmarks.aims import Aim
from benchmarks.dashboard.updates import BUSY_PAGES, open_pages
from benchmarks.serve import Load
from benchmarks.testbeds import RunningTestbed

_FROZEN, _AGAIN, _IDLE, _OPEN = "frozen", "frozen, again", "nobody looks", f"{len(BUSY_PAGES)} pages open"
_SETTLE_SECONDS = 1.5
_LIMIT = 1.1

Latencies = Mapping[str, Sequence[Sequence[float]]]
"""By situation: of each round, the latencies in seconds."""


def measure_latencies(testbed: RunningTestbed, load: Load, rate: float, rounds: int, seconds: float) -> Latencies:
    """Measure windows in all situations, which take turns."""
    found: dict[str, list[list[float]]] = {name: [] for name in (_FROZEN, _IDLE, _AGAIN, _OPEN)}
    for number in range(rounds):
        names = deque(found)
        names.rotate(-number)
        for name in names:
            with _situation(testbed, name):
                time.sleep(_SETTLE_SECONDS)
                found[name].append((load.measure(seconds, rate).latencies / 1e9).tolist())
    return found


def latency_table(found: Latencies) -> Table:
    """Return a table with a row for each situation."""
    table = Table("dashboard", title="Requests over HTTP: medians of the windows, ms")
    for name in ("requests", "p50", "p99", "p99 beside frozen", "its spread"):
        table.add_column(name, justify="right")
    for name, windows in found.items():
        p50, p99 = (1e3 * median(_percentile(window, percent) for window in windows) for percent in (50, 99))
        ratios = _ratios(found, name)
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        count = f"{sum(map(len, windows)):,}"
        table.add_row(name, count, f"{p50:.2f}", f"{p99:.2f}", f"{median(ratios):.3f}", spread)
    return table


def latency_aims(found: Latencies) -> list[Aim]:
    """Requests are as quick as without a dashboard."""
    noise = _ratios(found, _AGAIN)
    remark = f"frozen again: {min(noise):.2f} to {max(noise):.2f}"
    return [
        Aim(f"p99 of requests, {name}", median(_ratios(found, name)), _LIMIT, "times that without", remark)
        for name in (_IDLE, _OPEN)
    ]


def _ratios(found: Latencies, name: str) -> list[float]:
    """The p99 of each round, beside that of the same round with a frozen dashboard."""
    pairs = zip(found[name], found[_FROZEN], strict=True)
    return [_percentile(window, 99) / _percentile(other, 99) for window, other in pairs]


def _percentile(values: Sequence[float], percent: int) -> float:
    return quantiles(values, n=100)[percent - 1]


@contextmanager
def _situation(testbed: RunningTestbed, name: str) -> Iterator[None]:
    with ExitStack() as stack:
        if name == _OPEN:
            stack.enter_context(open_pages(testbed, BUSY_PAGES))
        elif name != _IDLE:
            os.kill(testbed.pids["dashboard"], signal.SIGSTOP)
            stack.callback(os.kill, testbed.pids["dashboard"], signal.SIGCONT)
        yield
