"""Part of a plan's graph that is shown, and the targets of its links."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

ALL = "all"


@dataclass(frozen=True, slots=True)
class PlanLinks:
    """The addresses that the graph links to. They are the caller's, and never made of a model's names."""

    operation: Callable[[int], str]
    """The address of what there is to say of an operation, by its number in the explanation."""
    step: Callable[[int], str]
    """The address of what there is to say of a step."""
    opened: Callable[[frozenset[int]], str]
    """The address of the graph with just these steps open."""
    unfolded: Callable[[frozenset[int], int], str] = lambda _unfolded, _at: ""
    """The address of the graph with just these scopes unfolded, at the place of an operation."""


@dataclass(frozen=True, slots=True)
class GraphView:
    """Part of the graph that is shown."""

    links: PlanLinks
    name: str = "plan"
    """Begins the ids in the drawing: another one for each graph of a page."""
    open: frozenset[int] = frozenset()
    """The steps that show their operations."""
    selected: frozenset[int] = frozenset()
    """The operations with a frame around them."""
    marks: Mapping[int, str] = field(default_factory=dict)
    """What is said of single operations, by their numbers: some words for each."""
    unfolded: frozenset[int] | None = None
    """The scopes that show what they have, by their numbers in ``PlanScopes``; None if no scope is folded."""


def opened_from(text: str, steps: int) -> frozenset[int]:
    """Read which steps are open, or which scopes are unfolded, from "2,5" or "all".

    Those that there are not, as in an old address, are left out.

    Raises ValueError for anything else.
    """
    if text == ALL:
        return frozenset(range(steps))
    parts = [part for part in text.split(",") if part]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"open: got {text[:40]!r}, expected numbers with commas between them, or '{ALL}'")
    return frozenset(number for number in (int(part[:9]) for part in parts) if number < steps)


def opened_text(opened: Collection[int], steps: int) -> str:
    """Write which steps are open, as ``opened_from`` reads it."""
    return ALL if steps and len(opened) == steps else ",".join(map(str, sorted(opened)))
