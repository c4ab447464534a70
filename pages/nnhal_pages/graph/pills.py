"""The values that come into an open step, and those that leave it: a pill for each, or for some together."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal_client.explanation import EdgeStory, Explanation
from nnhal_pages.graph.boxes import GraphBox, fitting, pill
from nnhal_pages.graph.lines import copy_word, edge_words
from nnhal_pages.svg import width_of
from nnhal_pages.units import size

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
        """Draw it."""
        how = copy_word(self.edges.values()) if self.entering else ""
        amount = f", {size(sum(self.values.values()))}{how and f', {how}'}"
        name, *more = self.values
        if more:
            name = f"{len(self.values)} values"
        words = fitting(name, _WIDTH - _ENDS - width_of(amount)) + amount
        told = [edge_words(edge) for edge in self.edges.values()]
        return pill(words, told, _WIDTH, "copied" if how else "")


def pills_of(explanation: Explanation, step: int, entering: bool) -> list[ValuePill]:
    """Return the pills of one side of a step."""
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
