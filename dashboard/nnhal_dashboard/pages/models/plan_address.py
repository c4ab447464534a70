"""The address of a page of plans: everything that it shows is in its query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from nnhal_client.explanation import Explanation
from nnhal_pages.graph import GraphView, PlanLinks, opened_from, opened_text

OLD, NEW = "old", "new"
"""The sides of a page with two plans. A page with one plan has the old one only."""
_OPEN = {OLD: "open", NEW: "open_new"}
_PLACE = "chosen"
"""The id of the place that tells of the chosen operation or step."""


@dataclass(frozen=True, slots=True)
class PlanAddress:
    """What a page of plans shows, and the addresses of the pages that differ from it in one respect."""

    path: str
    fixed: tuple[tuple[str, str], ...] = ()
    """The part of the query that says of which plans it is."""
    open: str = ""
    """The open steps of the old plan, as ``opened_from`` reads them."""
    open_new: str = ""
    side: str = OLD
    """The plan of the chosen operation or step."""
    node: int | None = None
    """The chosen operation."""
    step: int | None = None
    """The chosen step, if no operation is chosen."""

    @classmethod
    def of(cls, path: str, fixed: Sequence[tuple[str, str]], query: Mapping[str, str]) -> PlanAddress:
        """Read the query of a page. Raises ValueError."""
        side = query.get("side", OLD)
        if side not in _OPEN:
            raise ValueError(f"side is {side!r}, expected {OLD} or {NEW}")
        numbers = (_number(query, "node"), _number(query, "step"))
        return cls(path, tuple(fixed), query.get("open", ""), query.get("open_new", ""), side, *numbers)

    def __str__(self) -> str:
        given = {
            "open": self.open,
            "open_new": self.open_new,
            "side": self.side if self.side != OLD else "",
            "node": self.node,
            "step": self.step,
        }
        query = urlencode([*self.fixed, *((name, value) for name, value in given.items() if value not in ("", None))])
        return f"{self.path}?{query}" if query else self.path

    def with_open(self, side: str, opened: str) -> PlanAddress:
        """Return the address of the same page with other steps open."""
        return replace(self, open=opened) if side == OLD else replace(self, open_new=opened)

    def view(self, side: str, explanation: Explanation) -> GraphView:
        """Return how the graph of one plan is shown. Raises ValueError, and LookupError for a node that is none."""
        steps = len(explanation.steps)
        chosen = self.chosen(side, explanation)
        links = PlanLinks(
            lambda number: f"{replace(self, side=side, node=number, step=None)}#{_PLACE}",
            lambda number: f"{replace(self, side=side, node=None, step=number)}#{_PLACE}",
            lambda opened: f"{self.with_open(side, opened_text(opened, steps))}#{side}",
        )
        opened = opened_from(self.open if side == OLD else self.open_new, steps)
        return GraphView(links, side, opened, frozenset(() if chosen is None else (chosen,)))

    def chosen(self, side: str, explanation: Explanation) -> int | None:
        """Return the chosen operation, if it is of this plan. Raises LookupError if the plan has none such."""
        if self.node is None or self.side != side:
            return None
        return _within(self.node, len(explanation.operations), "operation")

    def chosen_step(self, side: str, explanation: Explanation) -> int | None:
        """Return the chosen step, if it is of this plan and no operation is chosen. Raises LookupError."""
        if self.step is None or self.node is not None or self.side != side:
            return None
        return _within(self.step, len(explanation.steps), "step")


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise ValueError(f"{name} is {text[:40]!r}, expected a number")
    return int(text)


def _within(number: int, count: int, what: str) -> int:
    if number >= count:
        raise LookupError(f"the plan has no {what} {number}, expected one of 0 to {count - 1}")
    return number
