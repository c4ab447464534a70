"""The address of a page of plans: everything that it shows is in its query, and so are the pins that are tried."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from urllib.parse import urlencode

from nnhal_client.explanation import Explanation
from nnhal_pages.graph import GraphView, PlanLinks, PlanScopes, opened_from, opened_text
from nnhal_pages.operating.resources.models import pin_pair

MOST_PINS = 256
"""Pins that are tried at a time: the page of a plan leads for each of them to the page without it."""
PinPair = tuple[str, str]
"""What is pinned, and the device."""


@dataclass(frozen=True, slots=True)
class PinChoice:
    """A plan that is tried: its pins, in order, and the devices that may be used; all if there are none."""

    pins: tuple[PinPair, ...]
    devices: tuple[str, ...] = ()

    @classmethod
    def of(cls, pins: Sequence[str], devices: Sequence[str]) -> PinChoice | None:
        """Read pins of the form MATCH=DEVICE; None if no plan is tried. An empty pin says that one is, without pins.

        Raises ValueError.
        """
        if not pins and not devices:
            return None
        if len(pins) > MOST_PINS or len(devices) > MOST_PINS:
            raise ValueError(f"{len(pins)} pins and {len(devices)} devices, expected at most {MOST_PINS} of each")
        return cls(tuple(map(pin_pair, filter(None, pins))), tuple(dict.fromkeys(filter(None, devices))))

    @property
    def query(self) -> tuple[tuple[str, str], ...]:
        """The part of a page's address that says the same."""
        pins = [("pin", f"{match}={device}") for match, device in self.pins] or [("pin", "")]
        return (*pins, *(("with", name) for name in self.devices))

    def pinned(self, numbers: Iterable[int], device: str) -> PinChoice:
        """Return the choice with more operations pinned, by their numbers: the last pin of an operation counts."""
        added = [(match, device) for match in _ranges(sorted(set(numbers)))]
        matches = {match for match, _ in added}
        return PinChoice((*(pin for pin in self.pins if pin[0] not in matches), *added), self.devices)

    def without(self, number: int) -> PinChoice:
        return PinChoice(self.pins[:number] + self.pins[number + 1 :], self.devices)


def chosen_numbers(checked: Sequence[str], first: str, last: str, count: int) -> list[int]:
    """Return the operations that are checked, and those of a range, of ``count`` in all. Raises ValueError."""
    numbers = [_operation_number(text, count) for text in checked]
    if first or last:
        low, high = _operation_number(first or last, count), _operation_number(last or first, count)
        numbers += range(min(low, high), max(low, high) + 1)
    if not numbers:
        raise ValueError("no operation is chosen: check some, or give a range")
    return numbers


def _operation_number(text: str, count: int) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) >= count:
        raise ValueError(f"operation {text[:40]!r}, expected a number from 0 to {count - 1}")
    return int(text)


def _ranges(numbers: Sequence[int]) -> Iterable[str]:
    """Yield matches of numbers that rise: one for each row of neighbours."""
    for _, pairs in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        row = [number for _, number in pairs]
        yield f"index:{row[0]}" if len(row) == 1 else f"index:{row[0]}-{row[-1]}"


OLD, NEW = "old", "new"
"""The sides of a page with two plans. A page with one plan has the old one only."""
_OPEN = {OLD: "open", NEW: "open_new"}
_LONGEST_SEARCH = 200
"""Characters of what is searched for."""
_PLACE = "chosen"
"""The id of the place that tells of the chosen operation or step."""


@dataclass(frozen=True, slots=True)
class PlanAddress:
    """State of a page of plans, and the addresses of the pages that differ from it in one respect."""

    path: str
    fixed: tuple[tuple[str, str], ...] = ()
    """The part of the query that names the plans that are shown."""
    open: str = ""
    """The open steps of the old plan, as ``opened_from`` reads them."""
    open_new: str = ""
    side: str = OLD
    """The plan of the chosen operation or step."""
    node: int | None = None
    """The chosen operation."""
    step: int | None = None
    """The chosen step, if no operation is chosen."""
    unfolded: str = ""
    """The unfolded scopes of the old plan, as ``opened_from`` reads them."""
    find: str = ""
    """What the names, types or devices of operations are searched for."""

    @classmethod
    def of(cls, path: str, fixed: Sequence[tuple[str, str]], query: Mapping[str, str]) -> PlanAddress:
        """Read the query of a page. Raises ValueError."""
        side = query.get("side", OLD)
        if side not in _OPEN:
            raise ValueError(f"side is {side!r}, expected {OLD} or {NEW}")
        numbers = (_number(query, "node"), _number(query, "step"))
        unfolded, find = query.get("unfolded", ""), query.get("find", "")[:_LONGEST_SEARCH]
        return cls(path, tuple(fixed), query.get("open", ""), query.get("open_new", ""), side, *numbers, unfolded, find)

    @property
    def query(self) -> list[tuple[str, object]]:
        """The query of the page."""
        given = {
            "open": self.open,
            "open_new": self.open_new,
            "side": self.side if self.side != OLD else "",
            "node": self.node,
            "step": self.step,
            "unfolded": self.unfolded,
            "find": self.find,
        }
        return [*self.fixed, *((name, value) for name, value in given.items() if value not in ("", None))]

    def __str__(self) -> str:
        query = urlencode(self.query)
        return f"{self.path}?{query}" if query else self.path

    def with_open(self, side: str, opened: str) -> PlanAddress:
        """Return the address of the same page with other steps open."""
        return replace(self, open=opened) if side == OLD else replace(self, open_new=opened)

    def of_operation(self, number: int) -> str:
        """Return the address of what there is to say of an operation of the old plan."""
        return f"{replace(self, side=OLD, node=number, step=None)}#{_PLACE}"

    def with_unfolded(self, unfolded: Collection[int], scopes: PlanScopes) -> PlanAddress:
        """Return the address of the same page with just these scopes unfolded."""
        return replace(self, unfolded=opened_text(unfolded, len(scopes.all)))

    def showing(self, operation: int, explanation: Explanation, scopes: PlanScopes) -> PlanAddress:
        """Return the address of the same page with an operation of the old plan chosen, and in sight in its graph."""
        steps = len(explanation.steps)
        step = explanation.operations[operation].step
        opened = opened_from(self.open, steps) | ({step} if step >= 0 else set())
        around = {scope.number for scope in scopes.around(operation)}
        unfolded = opened_from(self.unfolded, len(scopes.all)) | around
        chosen = replace(self, side=OLD, node=operation, step=None, open=opened_text(opened, steps))
        return chosen.with_unfolded(unfolded, scopes)

    def view(self, side: str, explanation: Explanation, scopes: PlanScopes | None = None) -> GraphView:
        """Return how the graph of one plan is shown; with ``scopes`` those that are not unfolded stand for theirs.

        Raises ValueError, and LookupError for a node that is none.
        """
        steps = len(explanation.steps)
        chosen = self.chosen(side, explanation)
        links = PlanLinks(
            lambda number: f"{replace(self, side=side, node=number, step=None)}#{_PLACE}",
            lambda number: f"{replace(self, side=side, node=None, step=number)}#{_PLACE}",
            lambda opened: f"{self.with_open(side, opened_text(opened, steps))}#{side}",
            lambda unfolded, at: f"{self.with_unfolded(unfolded, scopes)}#{at_operation(at)}" if scopes else "",
        )
        opened = opened_from(self.open if side == OLD else self.open_new, steps)
        unfolded = None if scopes is None else opened_from(self.unfolded, len(scopes.all))
        return GraphView(links, side, opened, frozenset(() if chosen is None else (chosen,)), unfolded=unfolded)

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


def at_operation(number: int) -> str:
    """Return the place of an operation in the graph of the old plan, as it ends an address."""
    return f"{OLD}-operation-{number}"


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
