"""How long the server takes to make each page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from statistics import median

from rich.table import Table

from benchmarks.aims import Aim
from benchmarks.dashboard.browser import visit
from benchmarks.dashboard.testbed import model_name
from benchmarks.testbeds import RunningTestbed

_LIMIT_MS = 300.0
_TRIES = 100
_NAVIGATION = re.compile(r"<nav.*?</nav>", re.DOTALL)
_LINK = re.compile(r"""href=['"](/[^'"]*)['"]""")


@dataclass(frozen=True, slots=True)
class PageCost:
    """What one page costs."""

    path: str
    milliseconds: Sequence[float]
    """The time of each visit, as the server measures it."""
    size: int
    """Bytes of HTML."""


def measure_pages(testbed: RunningTestbed, visits: int) -> list[PageCost]:
    """Ask for each page so many times, in turns."""
    address = testbed.addresses["dashboard"]
    paths = _paths(testbed, address)
    took: dict[str, list[float]] = {path: [] for path in paths}
    sizes = {}
    for _ in range(visits):
        for path in paths:
            page = visit(address, path)
            took[path].append(page.milliseconds)
            sizes[path] = len(page.text.encode())
    return [PageCost(path, took[path], sizes[path]) for path in paths]


def page_table(costs: Sequence[PageCost]) -> Table:
    """Return a table with a row for each page."""
    table = Table("page", title="Pages, on the server")
    for name in ("median ms", "worst ms", "KiB"):
        table.add_column(name, justify="right")
    for cost in costs:
        times = cost.milliseconds
        table.add_row(cost.path, f"{median(times):.0f}", f"{max(times):.0f}", f"{cost.size / 1024:.0f}")
    return table


def page_aims(costs: Sequence[PageCost]) -> list[Aim]:
    """The slowest page is quick enough."""
    slow = max(costs, key=lambda cost: median(cost.milliseconds))
    worst = max(costs, key=lambda cost: max(cost.milliseconds))
    return [
        Aim("the slowest page, median", median(slow.milliseconds), _LIMIT_MS, "ms", slow.path),
        Aim("the slowest page, worst visit", max(worst.milliseconds), _LIMIT_MS, "ms", worst.path),
    ]


def _paths(testbed: RunningTestbed, address: str) -> list[str]:
    """The pages of the navigation, and one of each kind that they lead to."""
    bar = _NAVIGATION.search(visit(address, "/").text)
    assert bar is not None
    listed = [unescape(link) for link in _LINK.findall(bar[0])]
    some_session = next(
        link
        for _ in range(_TRIES)  # sessions may not be known yet
        for link in _LINK.findall(visit(address, "/sessions").text)
        if link.startswith("/sessions/framework/")
    )
    return [
        *dict.fromkeys(listed),
        f"/devices/{testbed.devices[0]}",
        "/processes/framework",
        f"/models/{model_name(0)}",
        f"/models/{model_name(0)}/plan",
        some_session,
    ]
