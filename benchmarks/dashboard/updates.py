"""What live pages cost the dashboard's process."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median

from rich.table import Table

from benchmarks.aims import Aim
from benchmarks.dashboard.browser import open_page
from benchmarks.processes import process_ns
from benchmarks.testbeds import RunningTestbed

BUSY_PAGES = ("/", "/devices", "/models", "/memory", "/sessions", "/metrics")
"""Pages whose live parts change all the time."""
_NOBODY = "nobody looks"
_SITUATIONS: Mapping[str, Sequence[str]] = {
    _NOBODY: (),
    **{page: (page,) for page in BUSY_PAGES},
    "six different pages": BUSY_PAGES,
    "/sessions in six browsers": ("/sessions",) * 6,
}
_SETTLE_SECONDS = 1.5
_FORGET_SECONDS = 6.0
"""Longer than details are gathered after the last look."""
_LIMIT_PERCENT = 3.0

Costs = Mapping[str, Sequence[float]]
"""By situation: of each round, the percentage of a core that the dashboard took."""


def measure_updates(testbed: RunningTestbed, rounds: int, seconds: float) -> Costs:
    """Measure windows in all situations, which take turns."""
    found: dict[str, list[float]] = {name: [] for name in _SITUATIONS}
    for _ in range(rounds):
        for name, pages in _SITUATIONS.items():
            with open_pages(testbed, pages):
                time.sleep(_SETTLE_SECONDS if pages else _FORGET_SECONDS)
                found[name].append(_percent(testbed.pids["dashboard"], seconds))
    return found


@contextmanager
def open_pages(testbed: RunningTestbed, pages: Sequence[str]) -> Iterator[None]:
    """Show pages until the context ends, each in a browser of its own."""
    with ExitStack() as stack:
        for page in pages:
            stack.enter_context(open_page(testbed.addresses["dashboard"], page))
        yield


def update_table(found: Costs) -> Table:
    """Return a table with a row for each situation."""
    table = Table("open", title="The dashboard's processor time, % of a core")
    for name in ("median", "least", "most", "for each open page"):
        table.add_column(name, justify="right")
    for name, values in found.items():
        each = f"{_each(found, name):.2f}" if name != _NOBODY else ""
        table.add_row(name, *(f"{value:.2f}" for value in (median(values), min(values), max(values))), each)
    return table


def update_aims(found: Costs) -> list[Aim]:
    """An open page costs little, alone and among others."""
    return [
        Aim(f"open: {name}", _each(found, name), _LIMIT_PERCENT, "% of a core for each page")
        for name in found
        if name != _NOBODY
    ]


def _each(found: Costs, name: str) -> float:
    """What a page costs beyond what is spent if nobody looks."""
    return (median(found[name]) - median(found[_NOBODY])) / len(_SITUATIONS[name])


def _percent(pid: int, seconds: float) -> float:
    before, began = process_ns(pid), time.monotonic()
    time.sleep(seconds)
    return (process_ns(pid) - before) / (time.monotonic() - began) / 1e9 * 100
