"""The graph of a plan as a drawing: the client, the steps, and control flow that the framework walks, with lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from nnhal_client.explanation import EdgeStory, Explanation
from nnhal_pages.explanation.marks import counted
from nnhal_pages.facts import WALKED, facts_of
from nnhal_pages.graph.boxes import GraphBox, caption, moved, operation_box, pill, step_box
from nnhal_pages.graph.frames import StepFrame, step_frame
from nnhal_pages.graph.lines import LEAST_NS, PlanLine, copy_word, drawn_lines, edge_words
from nnhal_pages.graph.scopes import PlanScopes
from nnhal_pages.graph.view import GraphView
from nnhal_pages.layout import LayoutLink, NodeShape, in_columns, layered
from nnhal_pages.patterns import DeviceLane, device_lanes, patterns
from nnhal_pages.svg import Drawing, element
from nnhal_pages.units import duration, size

_CLIENT_WIDTH = 150

_End = tuple[int, float, bool]
"""A box, from where in it a line goes, and whether a pill says what it carries."""


class PlanOutline:
    """The boxes of a graph, and the lines between them by their numbers."""

    def __init__(
        self, explanation: Explanation, lanes: Mapping[str, DeviceLane], limit: float, view: GraphView
    ) -> None:
        """Collect them. ``limit`` is the width of rows in open steps."""
        self.boxes: list[GraphBox] = []
        self.shapes: list[NodeShape] = []
        self.lines: list[PlanLine] = []
        self._explanation = explanation
        self._facts = facts_of(explanation)
        self._scopes = None if view.unfolded is None else PlanScopes(explanation)
        self._view = view
        self._frames: dict[int, StepFrame] = {}
        self._steps = [self._step(number, lanes, limit) for number in range(len(explanation.steps))]
        self._walked = {
            number: self._add(operation_box(number, explanation.operations[number], DeviceLane(), 0, view))
            for number in self._facts.members.get(WALKED, ())
        }
        self._inputs = self._client("input", [edge for edge in explanation.edges if edge.source_step == WALKED])
        self._outputs = self._client("output", [edge for edge in explanation.edges if edge.destination_step == WALKED])
        self._pass_edges()
        self._pass_walked()

    def _add(self, box: GraphBox, first: bool = False, last: bool = False) -> int:
        self.boxes.append(box)
        self.shapes.append(NodeShape(box.width, box.height, first, last))
        return len(self.boxes) - 1

    def _step(self, number: int, lanes: Mapping[str, DeviceLane], limit: float) -> int:
        members = self._facts.members.get(number, ())
        lane = lanes.get(self._explanation.steps[number].device, DeviceLane())
        if number in self._view.open:
            frame = step_frame(number, self._explanation, self._facts, self._scopes, lane, limit, self._view)
            self._frames[number] = frame
            return self._add(frame.box)
        kinds = Counter(self._explanation.operations[member].operation for member in members).most_common()
        words = [f"{count} {kind}" if count > 1 else kind for kind, count in kinds]
        marked = sum(member in self._view.marks for member in members)
        return self._add(step_box(number, self._explanation, words, marked, lane, self._view))

    def _client(self, side: str, edges: Sequence[EdgeStory]) -> int:
        """Add the client's end of the edges that no walked control flow has, if there are any; otherwise return -1."""
        values = {edge.value for edge in edges if self._walks(side, edge.value) is None}
        if not values:
            return -1
        words = f"client: {len(values)} {side}{'s' if len(values) != 1 else ''}"
        notes = [edge_words(edge) for edge in edges if edge.value in values]
        return self._add(pill(words, notes, _CLIENT_WIDTH, "client"), side == "input", side == "output")

    def _walks(self, side: str, value: str) -> int | None:
        """Return the walked operation that writes what looks like the client's input, or reads such an output."""
        found = (self._facts.writers if side == "input" else self._facts.readers).get(value, ())
        return next((number for number in found if number in self._walked), None)

    def _pass_edges(self) -> None:
        groups: dict[tuple[_End, _End, bool], list[EdgeStory]] = {}
        for number, edge in enumerate(self._explanation.edges):
            key = self._end(number, edge, "input"), self._end(number, edge, "output"), bool(edge.copied_bytes)
            groups.setdefault(key, []).append(edge)
        for (source, target, copied), edges in groups.items():
            notes = tuple(map(edge_words, edges))
            if source[2] or target[2]:
                self._line(source, target, notes, copied)
            else:
                words = self._add(caption(_edge_caption(edges), notes, "copied" if copied else ""))
                self._line(source, (words, 0, False), notes, copied, arrow=False)
                self._line((words, 0, False), target, notes, copied)

    def _end(self, number: int, edge: EdgeStory, side: str) -> _End:
        step = edge.source_step if side == "input" else edge.destination_step
        if step == WALKED:
            walks = self._walks(side, edge.value)
            client = self._inputs if side == "input" else self._outputs
            return (client if walks is None else self._walked[walks]), 0, False
        frame = self._frames.get(step)
        if frame is None:
            return self._steps[step], 0, False
        return self._steps[step], (frame.exits if side == "input" else frame.entries)[number], True

    def _pass_walked(self) -> None:
        for reader, box in self._walked.items():
            for value in dict.fromkeys(self._explanation.operations[reader].inputs):
                writer = self._facts.writer(value, reader)
                if writer in self._walked:
                    self._line((self._walked[writer], 0, False), (box, 0, False), (value,), False)

    def _line(self, source: _End, target: _End, notes: tuple[str, ...], copied: bool, arrow: bool = True) -> None:
        link = LayoutLink(source[0], target[0], source[1], target[1], notes, (copied, arrow))
        self.lines.append(PlanLine(link, notes, copied, arrow))


def _edge_caption(edges: Sequence[EdgeStory]) -> list[str]:
    """Say in two lines what passes from a step to another one, all of it copied or none."""
    values = {edge.value: edge.bytes for edge in edges}
    how = copy_word(edges)
    time = sum(max(0.0, edge.modelled_ns) for edge in edges)
    name = next(iter(values)) if len(values) == 1 else f"{len(values)} values"
    cost = f", {duration(time)}" if time >= LEAST_NS else ""
    return [name, f"{size(sum(values.values()))}{how and f', {how}'}{cost}"]


_WIDEST, _WIDEST_WITHIN = 1180, 1010
"""Rows of steps, and rows of operations within one, are not wider if they can be split."""
_MARGIN = 6


def plan_graph(explanation: Explanation, view: GraphView) -> Drawing:
    """Draw a plan from the top down: the client, the steps, the edges between them; open steps with their operations.

    Its page has ``drawing_style()``.
    """
    lanes = device_lanes(device.name for device in explanation.devices)
    outline = PlanOutline(explanation, lanes, _WIDEST_WITHIN, view)
    layout = layered(outline.shapes, [line.link for line in outline.lines], _WIDEST)
    layout = in_columns(layout, outline.shapes, _WIDEST)
    placed = [moved(box.content, *place) for box, place in zip(outline.boxes, layout.places, strict=True)]
    used = [DeviceLane(), *(lanes.get(step.device, DeviceLane()) for step in explanation.steps)]
    drawn = moved(drawn_lines(layout, outline.lines, outline.shapes) + "".join(placed), _MARGIN, _MARGIN)
    steps, operations = counted(len(explanation.steps), "step"), counted(len(explanation.operations), "operation")
    notes = f"Graph of a plan with {steps} and {operations}"
    return Drawing(
        round(layout.width) + 2 * _MARGIN,
        round(layout.height) + 2 * _MARGIN,
        notes,
        element("g", patterns(view.name, used) + drawn, class_="graph"),
        interactive=True,
    )
