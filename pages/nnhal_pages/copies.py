"""The bytes that runs copy: everywhere the same three figures, with where they are copied."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan, nan
from typing import Protocol

from nnhal_client.explanation import Explanation

NAMES = "between devices", "to and from clients", "staged"
"""Values from step to step; inputs and outputs of the model; and of both, what hosts of devices copy."""
_PLACES = 3
"""So many places of copies are named."""


class Copied(Protocol):
    """``nnhal.reports.CopiedBytes``, or the message."""

    @property
    def between(self) -> int: ...

    @property
    def clients(self) -> int: ...

    @property
    def staged(self) -> int: ...


def copied_figures(copied: Copied, write: Callable[[float], str], runs: int = 1) -> tuple[str, str, str]:
    """Return the three figures in the order of NAMES: means, if they are sums over several runs."""
    count = max(runs, 1)
    return write(copied.between / count), write(copied.clients / count), write(copied.staged / count)


def planned_copies(explanation: Explanation) -> tuple[float, float, float]:
    """Return the numbers of a plan in the order of NAMES; nan if they depend on open dimensions."""
    open_edges = [edge for edge in explanation.edges if edge.is_copied and not edge.bytes]
    copied = explanation.copied
    return (
        nan if any(edge.is_between for edge in open_edges) else copied.between,
        nan if any(not edge.is_between for edge in open_edges) else copied.clients,
        nan if open_edges else copied.staged,
    )


def planned_figures(explanation: Explanation, write: Callable[[float], str]) -> tuple[str, str, str]:
    """Return those of a plan, ``unknown`` if they depend on open dimensions."""
    between, clients, staged = (or_unknown(number, write) for number in planned_copies(explanation))
    return between, clients, staged


def or_unknown(number: float, write: Callable[[float], str]) -> str:
    return "unknown" if isnan(number) else write(number)


def copied_words(figures: tuple[str, str, str]) -> str:
    return ", ".join(f"{text} {name}" for text, name in zip(figures, NAMES, strict=True))


def places(explanation: Explanation, write: Callable[[float], str], between: bool | None = None) -> str:
    """Say where a plan copies, the most first; empty if it does not.

    ``between`` asks for the copies between devices only, or for those to and from clients.
    """
    sums: dict[str, float] = {}
    for edge in explanation.edges:
        if edge.is_copied and between in (None, edge.is_between):
            way = f"{edge.source or 'client'} to {edge.destination or 'client'}"
            sums[way] = sums.get(way, 0) + edge.copied_bytes
    ways = sorted(sums.items(), key=lambda pair: -pair[1])
    words = [f"{way} {write(count) if count else 'unknown'}" for way, count in ways[:_PLACES]]
    more = len(ways) - _PLACES
    return ", ".join(words) + (f" and {more} more" if more > 0 else "")
