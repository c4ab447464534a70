"""The time that charts and lists show: in the address of a page, and kept while a browser goes from page to page."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite
from typing import NamedTuple

from fastapi import HTTPException, Request

from nnhal_dashboard.access.visitors import Visitor
from nnhal_dashboard.monitoring.events import written
from nnhal_pages.operating.table import read_instant


class TimeRange(NamedTuple):
    """A time until now."""

    name: str
    """As addresses have it."""
    words: str
    seconds: int
    step: int
    """Seconds that charts put together: so many that a line has 150 to 240 points."""


RANGES: Mapping[str, TimeRange] = {
    each.name: each
    for each in (
        TimeRange("5m", "5 min", 300, 2),
        TimeRange("15m", "15 min", 900, 5),
        TimeRange("1h", "1 h", 3600, 20),
        TimeRange("24h", "24 h", 86400, 360),
    )
}
DEFAULT = RANGES["15m"]


class OwnTime(NamedTuple):
    """A certain time, in seconds since the epoch, as ``from`` and ``until`` of an address have it."""

    begin: float = -inf
    end: float = inf

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> OwnTime | None:
        """Return the time of a query; None if it names none. Raises ValueError if it cannot be read."""
        begin, end = parameters.get("from", ""), parameters.get("until", "")
        if not begin and not end:
            return None
        begin_ns, end_ns = read_instant("from", begin), read_instant("until", end)
        return cls(begin_ns / 1e9 if begin else -inf, end_ns / 1e9 if end else inf)

    @property
    def parameters(self) -> dict[str, str]:
        """The query of the time."""
        given = {"from": self.begin, "until": self.end}
        return {name: written(at) for name, at in given.items() if isfinite(at)}

    def has(self, begin: float, end: float | None = None) -> bool:
        """Return whether an instant, or a part of a time, is in it."""
        return self.begin <= (begin if end is None else end) and begin <= self.end


class ElsewhereError(Exception):
    """The page has another address, which the browser is to ask for."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address


def range_of(request: Request) -> TimeRange:
    """Return the range of a page.

    Raises ElsewhereError if the address has none and another than usual was chosen before, so that the address says
    what is shown. Raises HTTPException if there is no such range.
    """
    visitor: Visitor = request.state.visitor
    name = request.query_params.get("range", "")
    if not name:
        if visitor.range in ("", DEFAULT.name):
            return DEFAULT
        there = request.url.include_query_params(range=visitor.range)
        raise ElsewhereError(f"{there.path}?{there.query}")
    if name not in RANGES:
        raise HTTPException(400, f"range is {name[:20]!r}, expected one of {', '.join(RANGES)}")
    visitor.range = name
    return RANGES[name]


def range_named(parameters: Mapping[str, str]) -> TimeRange:
    """Return the range of a live part. Raises ValueError if there is none of its name."""
    name = parameters.get("range", DEFAULT.name)
    if name not in RANGES:
        raise ValueError(f"range is {name[:20]!r}, expected one of {', '.join(RANGES)}")
    return RANGES[name]
