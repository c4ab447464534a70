"""The lines of a plan's graph: values on their way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nnhal_client.explanation import EdgeStory
from nnhal_pages.layout import GraphLayout, LayoutLink, LineBundle, NodeShape
from nnhal_pages.layout.shapes import Point
from nnhal_pages.svg import element, rounded, title
from nnhal_pages.units import duration, place, size
from nnhal_pages.wires import sent_words

_TOLD = 12
"""The most values that are named of those that share a line."""
_STUB = 14
LEAST_NS = 50
"""Shorter times are none in the unit that they would have."""


@dataclass(frozen=True, slots=True)
class PlanLine:
    """A link of the layout, and what is said of it."""

    link: LayoutLink
    notes: tuple[str, ...]
    """A line of text for each value."""
    copied: bool = False
    arrow: bool = True


def drawn_lines(layout: GraphLayout, lines: Sequence[PlanLine], shapes: Sequence[NodeShape]) -> str:
    """Draw all lines. Of one that is cut, both ends stand out of their nodes."""
    drawn = [_bundle(bundle, [lines[number] for number in bundle.links]) for bundle in layout.bundles]
    return "".join(drawn) + "".join(_cut(lines[number], layout, shapes) for number in layout.cut)


def copy_word(edges: Iterable[EdgeStory]) -> str:
    """Say in a word or two what becomes of values together; nothing if all of them stay where they are."""
    edges = list(edges)
    if any(edge.wire_up_bytes or edge.wire_down_bytes for edge in edges):
        return "by wire"
    return "copied" if any(edge.copied_bytes for edge in edges) else ""


def edge_words(edge: EdgeStory) -> str:
    how = f"{size(edge.copied_bytes)} copied" if edge.copied_bytes else "in place"
    if sent := sent_words(edge):
        how = sent
    time = f", modelled {duration(edge.modelled_ns)}" if edge.modelled_ns >= LEAST_NS else ""
    layer = f" by {edge.layer}" if edge.layer else ""
    ends = f"{place(edge.source, edge.source_step)} to {place(edge.destination, edge.destination_step)}"
    return f"{edge.value}: {size(edge.bytes)}, {how}{time}, {ends}, {edge.strategy}{layer}"


def _bundle(bundle: LineBundle, lines: Sequence[PlanLine]) -> str:
    path = "".join(_segment(*start, *end) for start, end in bundle.segments) + "".join(map(_jump, bundle.jumps))
    heads = "".join(_head(x, y, bundle.upwards) for x, y in bundle.ends) if lines[0].arrow else ""
    head = element("path", class_="head", d=heads) if heads else ""
    words = title(*_tips(lines)) + element("path", class_="line", d=path) + head
    return element("g", words, class_="edge copied" if lines[0].copied else "edge")


def _tips(lines: Sequence[PlanLine]) -> Iterator[str]:
    words = list(dict.fromkeys(text for line in lines for text in line.notes))
    yield from words[:_TOLD]
    if len(words) > _TOLD:
        yield f"and {len(words) - _TOLD} more"


def _segment(x: float, y: float, end_x: float, end_y: float) -> str:
    if abs(x - end_x) < 0.05:
        return f"M{rounded(x)} {rounded(y)}V{rounded(end_y)}"
    middle = rounded((y + end_y) / 2)
    return (
        f"M{rounded(x)} {rounded(y)}C{rounded(x)} {middle} {rounded(end_x)} {middle} {rounded(end_x)} {rounded(end_y)}"
    )


def _jump(corners: Sequence[Point]) -> str:
    return "M" + "L".join(f"{rounded(x)} {rounded(y)}" for x, y in corners)


def _head(x: float, y: float, upwards: bool) -> str:
    return f"M{rounded(x)} {rounded(y)}l-4 {8 if upwards else -8}h8z"


def _cut(line: PlanLine, layout: GraphLayout, shapes: Sequence[NodeShape]) -> str:
    """Draw the two ends of a line whose way is not drawn."""
    (x, y), (end_x, end_y) = layout.places[line.link.source], layout.places[line.link.target]
    x, y = x + shapes[line.link.source].width / 2 + _STUB, y + shapes[line.link.source].height
    end_x += shapes[line.link.target].width / 2 - _STUB
    path = _segment(x, y, x, y + _STUB) + _segment(end_x, end_y - _STUB, end_x, end_y)
    words = title("This line is not drawn in full.", *_tips([line])) + element("path", class_="line", d=path)
    return element("g", words, class_="edge cut copied" if line.copied else "edge cut")
