"""Search in a plan's graph: operations by their names, types or devices, and scopes that are unfolded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nnhal_dashboard.monitoring.plans import KnownPlan
from nnhal_dashboard.pages.models.drawings import scopes_of
from nnhal_dashboard.pages.models.plan_address import PlanAddress, at_operation
from nnhal_pages.facts import operation_name
from nnhal_pages.graph import NameScope, opened_from

_SHOWN = 30
"""So many operations are listed."""


@dataclass(frozen=True, slots=True)
class FoundOperation:
    """An operation that was looked for."""

    number: int
    name: str
    kind: str
    device: str
    address: str
    """The page whose graph shows it, at its place in the graph."""


@dataclass(frozen=True, slots=True)
class PlanSearch:
    """Result of a search."""

    text: str
    """What was looked for; empty if nothing was."""
    count: int
    shown: Sequence[FoundOperation]
    """The first of them."""


def search(plan: KnownPlan, address: PlanAddress) -> PlanSearch:
    """Look for what the address says: operations that have each of its words in their name, type, device or number."""
    words = address.find.lower().split()
    found = [number for number, text in enumerate(_texts(plan)) if all(word in text for word in words)] if words else []
    return PlanSearch(address.find, len(found), [_found(plan, address, number) for number in found[:_SHOWN]])


def _texts(plan: KnownPlan) -> Iterator[str]:
    for number, story in enumerate(plan.explanation.operations):
        yield f"{operation_name(story, number)} {story.operation} {story.device} #{number}".lower()


def _found(plan: KnownPlan, address: PlanAddress, number: int) -> FoundOperation:
    shown = plan.explanation
    story = shown.operations[number]
    to = f"{address.showing(number, shown, scopes_of(plan))}#{at_operation(number)}"
    return FoundOperation(number, operation_name(story, number), story.operation, story.device, to)


@dataclass(frozen=True, slots=True)
class PlanFolding:
    """The scopes that the graph of a plan shows unfolded."""

    count: int
    """All scopes of the plan."""
    unfolded: Sequence[tuple[NameScope, str]]
    """Those that are, with the address of the page with each folded again."""
    none: PlanAddress
    """The address of the page with all of them folded."""
    all: PlanAddress
    """The address of the page with none of them folded."""


def folding(plan: KnownPlan, address: PlanAddress) -> PlanFolding:
    """Return which scopes the page of an address shows unfolded. Raises ValueError if the address makes no sense."""
    scopes = scopes_of(plan)
    unfolded = opened_from(address.unfolded, len(scopes.all))
    return PlanFolding(
        len(scopes.all),
        [
            (scope, f"{address.with_unfolded(unfolded - {scope.number}, scopes)}#{at_operation(scope.members[0])}")
            for scope in (scopes.all[number] for number in sorted(unfolded))
            if len(unfolded) < len(scopes.all)
        ],
        address.with_unfolded((), scopes),
        address.with_unfolded(range(len(scopes.all)), scopes),
    )
