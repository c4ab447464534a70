"""What requests notice of the dashboard."""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from statistics import median, quantiles

from rich.table import Table

from benchmarks.aims import Aim
from benchmarks.dashboard.testbed import model_name
from benchmarks.dashboard.updates import BUSY_PAGES
from benchmarks.processes import process_ns
from benchmarks.serve import Load
from benchmarks.testbeds import RunningTestbed

_FROZEN, _AGAIN, _IDLE = "frozen", "frozen, again", "nobody looks"
_SETTLE_SECONDS = 1.5
_LIMIT = 1.1
STREAMS: Mapping[str, Sequence[str]] = {f"{len(BUSY_PAGES)} pages open": BUSY_PAGES}
"""Situations with pages that nothing draws, by what they are called."""
_MODEL = f"/models/{model_name(0)}"
TABS: Mapping[str, Sequence[str]] = {
    "overview": ("/",),
    "metrics": ("/metrics",),
    "runs": ("/runs",),
    "devices": ("/devices",),
    "a model": (_MODEL,),
    "a plan": (f"{_MODEL}/plan",),
    "four tabs": ("/", "/metrics", "/runs", f"{_MODEL}/plan"),
}
"""Those with pages in a browser, each in a window that is seen."""

Latencies = Mapping[str, Sequence[Sequence[float]]]
"""By situation: of each round, the latencies in seconds."""
Spent = Mapping[str, Mapping[str, Sequence[float]]]
"""By situation and process: of each round, the processor's nanoseconds for a request."""
OpenPages = Callable[[Sequence[str]], AbstractContextManager[object]]


def measure_latencies(
    testbed: RunningTestbed,
    load: Load,
    rate: float,
    rounds: int,
    seconds: float,
    situations: Mapping[str, Sequence[str]],
    open_: OpenPages,
) -> tuple[Latencies, Spent]:
    """Measure windows in all situations, which take turns. ``open_`` holds the pages of one open."""
    pages: Mapping[str, Sequence[str]] = {_FROZEN: (), _IDLE: (), _AGAIN: (), **situations}
    found: dict[str, list[list[float]]] = {name: [] for name in pages}
    spent: dict[str, defaultdict[str, list[float]]] = {name: defaultdict(list) for name in pages}
    for number in range(rounds):
        names = deque(pages)
        names.rotate(-number)
        for name in names:
            with _situation(testbed, name, pages[name], open_):
                time.sleep(_SETTLE_SECONDS)
                before = _processor_ns(testbed)
                latencies = load.measure(seconds, rate).latencies
                for process, after in _processor_ns(testbed).items():
                    spent[name][process].append((after - before[process]) / len(latencies))
                found[name].append((latencies / 1e9).tolist())
    return found, spent


def _processor_ns(testbed: RunningTestbed) -> Mapping[str, float]:
    devices = sum(process_ns(testbed.pids[name]) for name in testbed.devices)
    return {name: process_ns(testbed.pids[name]) for name in ("framework", "dashboard")} | {"devices": devices}


def spent_table(found: Spent) -> Table:
    """Return a table of what processes spend for a request, whatever else the machine has to do."""
    processes = ("framework", "devices", "dashboard")
    table = Table("dashboard", title="Processor time, µs for a request: medians of the windows")
    for name in processes:
        table.add_column(name, justify="right")
    for name, of in found.items():
        table.add_row(name, *(f"{median(of[process]) / 1e3:.1f}" for process in processes))
    return table


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
        for name in found
        if name not in (_FROZEN, _AGAIN)
    ]


def _ratios(found: Latencies, name: str) -> list[float]:
    """The p99 of each round, beside that of the same round with a frozen dashboard."""
    pairs = zip(found[name], found[_FROZEN], strict=True)
    return [_percentile(window, 99) / _percentile(other, 99) for window, other in pairs]


def _percentile(values: Sequence[float], percent: int) -> float:
    return quantiles(values, n=100)[percent - 1]


@contextmanager
def _situation(testbed: RunningTestbed, name: str, pages: Sequence[str], open_: OpenPages) -> Iterator[None]:
    with ExitStack() as stack:
        if pages:
            stack.enter_context(open_(pages))
        elif name != _IDLE:
            os.kill(testbed.pids["dashboard"], signal.SIGSTOP)
            stack.callback(os.kill, testbed.pids["dashboard"], signal.SIGCONT)
        yield
