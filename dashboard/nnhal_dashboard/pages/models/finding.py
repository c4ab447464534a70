"""Search in a plan's graph: operations by their names, types or devices, and scopes that are unfolded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nnhal_dashboard.monitoring.plans import KnownPlan
from nnhal_dashboard.pages.models.drawings import scopes_of
from nnhal_dashboard.pages.models.plan_address import PlanAddress, at_operation
from nnhal_pages.facts import operation_name
from nnhal_pages.graph import opened_from

_SHOWN = 30
"""So many operations are listed."""


def search(plan: KnownPlan, address: PlanAddress) -> dict[str, Any]:
    """Look for what the address says: operations that have each of its words in their name, type, device or number.

    Returns the ``text``, the ``count`` of those found and, as ``shown``, the first: the address of the page whose graph
    shows it, its name, and its story.
    """
    words = address.find.lower().split()
    found = [number for number, text in enumerate(_texts(plan)) if all(word in text for word in words)] if words else []
    shown, scopes = plan.explanation, scopes_of(plan)
    rows = [
        (
            f"{address.showing(number, shown, scopes)}#{at_operation(number)}",
            operation_name(shown.operations[number], number),
            shown.operations[number],
        )
        for number in found[:_SHOWN]
    ]
    return {"text": address.find, "count": len(found), "shown": rows}


def _texts(plan: KnownPlan) -> Iterator[str]:
    for number, story in enumerate(plan.explanation.operations):
        yield f"{operation_name(story, number)} {story.operation} {story.device} #{number}".lower()


def folding(plan: KnownPlan, address: PlanAddress) -> dict[str, Any]:
    """Return the ``count`` of a plan's scopes, those that are ``unfolded``, with the address of each folded again, and
    the addresses of the page with ``none`` and with ``all`` of them unfolded. Raises ValueError for a wrong address.
    """
    scopes = scopes_of(plan)
    unfolded = opened_from(address.unfolded, len(scopes.all))
    some = sorted(unfolded) if len(unfolded) < len(scopes.all) else ()
    return {
        "count": len(scopes.all),
        "unfolded": [
            (
                scopes.all[number],
                f"{address.with_unfolded(unfolded - {number}, scopes)}#{at_operation(scopes.all[number].members[0])}",
            )
            for number in some
        ],
        "none": address.with_unfolded((), scopes),
        "all": address.with_unfolded(range(len(scopes.all)), scopes),
    }
