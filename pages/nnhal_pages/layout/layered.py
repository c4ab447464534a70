"""A layered layout, after Sugiyama: ranks, ways of long links, orders within ranks, places."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from nnhal_pages.layout.cycles import Pair, reversed_links, topological
from nnhal_pages.layout.ordering import orders_of
from nnhal_pages.layout.placing import middles_of
from nnhal_pages.layout.shapes import GraphLayout, LayoutLink, LineBundle, NodeShape, Point, Segment
from nnhal_pages.layout.trunks import Stretch, Trunk, Ways, ways_of

_GAPS = (18.0, 12.0)
"""Between two nodes of a rank, and beside a line."""
_LEAST_RISE, _MOST_RISE, _SLOPE = 26.0, 90.0, 0.08
"""The room between two ranks, at least and at most, and how much of it a line to the side needs."""


def layered(shapes: Sequence[NodeShape], links: Sequence[LayoutLink], limit: float) -> GraphLayout:
    """Lay a graph out from the top down. A rank that would be wider than ``limit`` becomes several.

    A link that closes a cycle goes upwards. One from a node to itself has no line. The same graph has the same layout.
    """
    turned = reversed_links(len(shapes), [(link.source, link.target) for link in links])
    down = {
        number: _turned(link) if number in turned else link
        for number, link in enumerate(links)
        if link.source != link.target
    }
    ranks = ranks_of(shapes, [(link.source, link.target) for link in down.values()], limit, _GAPS[0])
    ways = ways_of(ranks, list(down.items()))
    stretches = [stretch for trunk in ways.trunks for stretch in trunk.stretches]
    orders = orders_of(ways.ranks, len(shapes), stretches)
    middles = middles_of(orders, [shape.width for shape in shapes], _GAPS, stretches)
    halves = [*(shape.width / 2 for shape in shapes), *[0.0] * (len(middles) - len(shapes))]
    left = min((x - half for x, half in zip(middles, halves, strict=True)), default=0.0)
    middles = [x - left for x in middles]
    heights = [0.0] * len(orders)
    for rank, shape in zip(ranks, shapes, strict=True):
        heights[rank] = max(heights[rank], shape.height)
    tops = _tops(heights, ways, stretches, middles)
    places = RankedPlaces(shapes, ways.ranks, middles, tops, heights)
    return GraphLayout(
        max((x + half for x, half in zip(middles, halves, strict=True)), default=0.0),
        tops[-1] + heights[-1] if orders else 0.0,
        tuple((middles[node] - halves[node], tops[ranks[node]]) for node in range(len(shapes))),
        tuple(
            places.bundle(trunk, [down[number] for number in trunk.links], trunk.links[0] in turned)
            for trunk in ways.trunks
        ),
        ways.cut,
    )


def _turned(link: LayoutLink) -> LayoutLink:
    return replace(
        link,
        source=link.target,
        target=link.source,
        source_x=link.target_x,
        target_x=link.source_x,
        kind=("turned", link.kind),
    )


def _tops(heights: Sequence[float], ways: Ways, stretches: Sequence[Stretch], middles: Sequence[float]) -> list[float]:
    """Return where each rank begins: below the one before it, with more room if lines go far to the side."""
    aside = [0.0] * len(heights)
    for each in stretches:
        reach = abs(middles[each.upper] + each.upper_x - middles[each.lower] - each.lower_x)
        aside[ways.ranks[each.upper]] = max(aside[ways.ranks[each.upper]], reach)
    tops, top = [], 0.0
    for height, reach in zip(heights, aside, strict=True):
        tops.append(top)
        top += height + min(_LEAST_RISE + reach * _SLOPE, _MOST_RISE)
    return tops


@dataclass(frozen=True, slots=True)
class RankedPlaces:
    """Places of nodes and bends. The numbers of bends follow those of nodes."""

    shapes: Sequence[NodeShape]
    ranks: Sequence[int]
    middles: Sequence[float]
    tops: Sequence[float]
    """The upper ends of ranks."""
    heights: Sequence[float]
    """The heights of ranks."""

    def bundle(self, trunk: Trunk, links: Sequence[LayoutLink], upwards: bool) -> LineBundle:
        """Return the lines of a way. ``links`` are its members as they are laid out, from a rank to a higher one."""
        segments = [segment for each in trunk.stretches for segment in self._segments(each)]
        if upwards:
            ends = [self._leaving(link.source, link.source_x) for link in links]
        else:
            ends = [(self.middles[link.target] + link.target_x, self._top(link.target)) for link in links]
        return LineBundle(trunk.links, tuple(dict.fromkeys(segments)), tuple(dict.fromkeys(ends)), upwards)

    def _segments(self, stretch: Stretch) -> Iterator[Segment]:
        """Yield the line to the end of the upper rank, straight down, and the one from there to the lower rank."""
        start = self._leaving(stretch.upper, stretch.upper_x)
        bottom = self._bottom(stretch.upper)
        if bottom > start[1]:
            yield start, (start[0], bottom)
        end = self.middles[stretch.lower] + stretch.lower_x, self._top(stretch.lower)
        yield (start[0], bottom), end

    def _leaving(self, node: int, x: float) -> Point:
        """Return where a line leaves a node, at its lower side, or a bend, at the top of its rank."""
        height = self.shapes[node].height if node < len(self.shapes) else 0.0
        return self.middles[node] + x, self._top(node) + height

    def _top(self, node: int) -> float:
        return self.tops[self.ranks[node]]

    def _bottom(self, node: int) -> float:
        return self._top(node) + self.heights[self.ranks[node]]


def ranks_of(shapes: Sequence[NodeShape], pairs: Sequence[Pair], limit: float, gap: float) -> list[int]:
    """Return the rank of each node, from 0 on. The pairs have no cycle.

    First each node is as high as it can be, in the order of their numbers, so that a rank that is full is followed by
    another. Then those from which more links go than come in are lowered, to be near what reads them. Nodes that are
    first lie in rank 0 and those that are last in the last rank, however many there are.
    """
    before: list[list[int]] = [[] for _ in shapes]
    after: list[list[int]] = [[] for _ in shapes]
    for source, target in pairs:
        after[source].append(target)
        before[target].append(source)
    order = topological(len(shapes), pairs)
    used: defaultdict[int, float] = defaultdict(float)
    ranks = [0] * len(shapes)
    lowest = int(any(shape.first for shape in shapes))
    for node in order:
        if not shapes[node].first:
            rank = max((ranks[other] + 1 for other in before[node]), default=lowest)
            room = limit - shapes[node].width
            while used[rank] > room and used[rank] > 0:
                rank += 1
            ranks[node] = rank
            used[rank] += shapes[node].width + gap
    for node in reversed(order):
        if shapes[node].first or len(after[node]) <= len(before[node]):
            continue
        wanted = min(ranks[other] for other in after[node]) - 1
        room = limit - shapes[node].width
        rank = next((rank for rank in range(wanted, ranks[node], -1) if used[rank] <= room), ranks[node])
        used[ranks[node]] -= shapes[node].width + gap
        used[rank] += shapes[node].width + gap
        ranks[node] = rank
    inner = max((rank for rank, shape in zip(ranks, shapes, strict=True) if not shape.last), default=-1)
    return [inner + 1 if shape.last else rank for rank, shape in zip(ranks, shapes, strict=True)]
