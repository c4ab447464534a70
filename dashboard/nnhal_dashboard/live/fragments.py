"""The parts of pages that are live, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any
from urllib.parse import parse_qsl, urlencode

from nnhal_dashboard.monitoring.collector import Collector
from nnhal_pages.operating.snapshot import NO_DETAIL, Detail, Snapshot

Parameters = Mapping[str, str]
Values = Callable[["Moment"], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Moment:
    """Facts from which a part of a page is made."""

    snapshot: Snapshot
    collector: Collector
    parameters: Parameters
    """Which device, which model, and so on, by the page that has the part."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """A part of a page: a template, and the values that it shows at a moment beside the ``snapshot``."""

    name: str
    """Such as ``overview.problems``."""
    template: str
    values: Values = lambda _: {}
    """Must be quick, and ask no process. Raises LookupError if what the parameters name does not exist."""
    shows: Detail = NO_DETAIL
    """What processes are asked for only while some page shows it."""


class Fragments:
    """All fragments of all pages."""

    def __init__(self) -> None:
        self._known: dict[str, Fragment] = {}

    def add(self, *fragments: Fragment) -> None:
        """Make fragments known. Names are unique."""
        for fragment in fragments:
            assert fragment.name not in self._known, fragment.name
            self._known[fragment.name] = fragment

    def find(self, name: str) -> Fragment:
        """Return a fragment. Raises LookupError."""
        if name not in self._known:
            raise LookupError(f"no live part {name!r}")
        return self._known[name]

    def shown(self, keys: Iterable[str]) -> Detail:
        """Return what some parts show together, by their keys."""
        found = (self._known.get(key.partition("?")[0]) for key in keys)
        return reduce(or_, (fragment.shows for fragment in found if fragment is not None), NO_DETAIL)


def key_of(name: str, parameters: Parameters) -> str:
    """Return the name of a fragment with its parameters, as pages and streams give it."""
    return f"{name}?{urlencode(sorted(parameters.items()))}" if parameters else name


def parse_key(key: str) -> tuple[str, dict[str, str]]:
    """Take a key apart."""
    name, _, query = key.partition("?")
    return name, dict(parse_qsl(query, keep_blank_values=True))
