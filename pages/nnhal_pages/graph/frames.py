"""An open step: its operations in a frame, the values that come in above them, and those that leave below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nnhal_client.explanation import EdgeStory, Explanation
from nnhal_pages.facts import PlanFacts
from nnhal_pages.graph.boxes import STRIP, GraphBox, fitting, moved, operation_box, pill, scope_box, step_lines, toggle
from nnhal_pages.graph.lines import PlanLine, copy_word, drawn_lines, edge_words
from nnhal_pages.graph.scopes import GraphItem, NameScope, PlanScopes
from nnhal_pages.graph.view import GraphView
from nnhal_pages.layout import LayoutLink, NodeShape, in_columns, layered
from nnhal_pages.patterns import DeviceLane
from nnhal_pages.svg import element, label, width_of
from nnhal_pages.units import size

_HEAD = 160
"""The width of the words on the left side."""
_MARGIN = 18
_LINE = 17


@dataclass(frozen=True, slots=True)
class StepFrame:
    """A drawn frame, and where lines reach it."""

    box: GraphBox
    entries: dict[int, float]
    """For each edge into the step, by its number in the explanation: from the middle of the frame."""
    exits: dict[int, float]
    """The same for each edge out of it."""


def step_frame(
    number: int,
    explanation: Explanation,
    facts: PlanFacts,
    scopes: PlanScopes | None,
    lane: DeviceLane,
    limit: float,
    view: GraphView,
) -> StepFrame:
    """Draw an open step. Rows of operations that would be wider than ``limit`` become several.

    Without ``scopes`` it has a box for each operation.
    """
    members = facts.members.get(number, ())
    items = scopes.visible(number, view.unfolded or ()) if scopes is not None else members
    entering, leaving = pills_of(explanation, number, True), pills_of(explanation, number, False)
    boxes = [*_items(explanation, items, lane, view), *(each.box() for each in (*entering, *leaving))]
    first, last = range(len(items), len(items) + len(entering)), len(items) + len(entering)
    shapes = [NodeShape(box.width, box.height, at in first, at >= last) for at, box in enumerate(boxes)]
    lines = list(_lines(explanation, facts, items, entering, leaving))
    layout = in_columns(layered(shapes, [line.link for line in lines], limit), shapes, limit, returns=True)
    left = STRIP + _HEAD
    words = step_lines(number, explanation)
    width, height = left + layout.width + _MARGIN, max(layout.height, _LINE * (len(words) + 2)) + 2 * _MARGIN
    placed = (moved(box.content, *place) for box, place in zip(boxes, layout.places, strict=True))
    content = (
        element("rect", class_="frame", x=0.5, y=0.5, width=width - 1, height=height - 1, rx=6)
        + element("rect", class_="strip", x=1.0, y=1.0, width=STRIP, height=height - 2, fill=lane.fill(view.name))
        + _words(number, words, view)
        + moved(drawn_lines(layout, lines, shapes) + "".join(placed), left, _MARGIN)
    )
    middles = [left + x + box.width / 2 - width / 2 for box, (x, _) in zip(boxes, layout.places, strict=True)]
    return StepFrame(
        GraphBox(
            width, height, element("g", content, id=f"{view.name}-step-{number}", class_=f"open-step {lane.class_}")
        ),
        {edge: middles[at] for at, each in zip(first, entering, strict=True) for edge in each.edges},
        {edge: middles[at] for at, each in enumerate(leaving, last) for edge in each.edges},
    )


def _items(
    explanation: Explanation, items: Sequence[GraphItem], lane: DeviceLane, view: GraphView
) -> Iterator[GraphBox]:
    times = [sum(max(0.0, explanation.operations[member].modelled_ns) for member in _members(item)) for item in items]
    longest = max(times, default=0.0)
    for item, time in zip(items, times, strict=True):
        share = time / longest if longest > 0 else 0.0
        if isinstance(item, NameScope):
            yield scope_box(item, explanation, lane, share, view)
        else:
            yield operation_box(item, explanation.operations[item], lane, share, view)


def _members(item: GraphItem) -> tuple[int, ...]:
    return item.members if isinstance(item, NameScope) else (item,)


def _words(number: int, words: Sequence[str], view: GraphView) -> str:
    """Write what there is to say of the step, in the upper left corner. It leads to more, and closes the step."""
    x = STRIP + 10
    texts = "".join(
        label(x, 24 + _LINE * at, fitting(text, _HEAD - 30), "" if at else "strong") for at, text in enumerate(words)
    )
    room = element("rect", class_="reach", x=STRIP + 2, y=4, width=_HEAD - 12, height=_LINE * len(words) + 14)
    link = element("a", room + texts, href=view.links.step(number), class_="node title", aria_label=", ".join(words))
    return link + toggle(number, x, 30 + _LINE * len(words), view)


def _lines(
    explanation: Explanation,
    facts: PlanFacts,
    items: Sequence[GraphItem],
    entering: Sequence[ValuePill],
    leaving: Sequence[ValuePill],
) -> Iterator[PlanLine]:
    """Yield the lines between boxes of the step, and those from and to its pills."""
    at = {member: position for position, item in enumerate(items) for member in _members(item)}
    given = {value: number for number, each in enumerate(entering, len(items)) for value in each.values}
    for target, item in enumerate(items):
        reads = ((value, member) for member in _members(item) for value in explanation.operations[member].inputs)
        drawn = set()
        for value, member in reads:
            writer = facts.writer(value, member)
            source = at.get(writer) if writer is not None else None
            source = given.get(value) if source is None else source
            if source is not None and source != target and (source, value) not in drawn:
                drawn.add((source, value))
                yield _line(source, target, value, facts)
    for number, each in enumerate(leaving, len(items) + len(entering)):
        for value in each.values:
            writers = [writer for writer in facts.writers.get(value, ()) if writer in at]
            if writers:
                yield _line(at[writers[-1]], number, value, facts)


def _line(source: int, target: int, value: str, facts: PlanFacts) -> PlanLine:
    tip = f"{value}, {size(facts.bytes[value])}" if value in facts.bytes else value
    return PlanLine(LayoutLink(source, target, value=value), (tip,))


_SINGLE = 8
"""So many values on one side of a step have a pill each. More are put together by the step at their other end."""
_WIDTH = 196
_ENDS = 16


@dataclass(frozen=True, slots=True)
class ValuePill:
    """Values on one side of a step."""

    edges: dict[int, EdgeStory]
    """By their numbers in the explanation. A value may have several."""
    entering: bool

    @property
    def values(self) -> dict[str, int]:
        """The names of the values, with their bytes."""
        return {edge.value: edge.bytes for edge in self.edges.values()}

    def box(self) -> GraphBox:
        how = copy_word(self.edges.values()) if self.entering else ""
        amount = f", {size(sum(self.values.values()))}{how and f', {how}'}"
        name, *more = self.values
        if more:
            name = f"{len(self.values)} values"
        words = fitting(name, _WIDTH - _ENDS - width_of(amount)) + amount
        tip = [edge_words(edge) for edge in self.edges.values()]
        return pill(words, tip, _WIDTH, "copied" if how else "")


def pills_of(explanation: Explanation, step: int, entering: bool) -> list[ValuePill]:
    edges = {
        number: edge
        for number, edge in enumerate(explanation.edges)
        if (edge.destination_step if entering else edge.source_step) == step
    }
    single = len({edge.value for edge in edges.values()}) <= _SINGLE
    groups: dict[str | int, dict[int, EdgeStory]] = {}
    for number, edge in edges.items():
        other = edge.source_step if entering else edge.destination_step
        groups.setdefault(edge.value if single else other, {})[number] = edge
    return [ValuePill(members, entering) for members in groups.values()]
