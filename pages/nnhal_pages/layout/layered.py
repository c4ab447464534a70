"""A layered layout, after Sugiyama: ranks, ways of long links, orders within ranks, places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnhal_pages.layout.cycles import reversed_links
from nnhal_pages.layout.lines import RankedPlaces
from nnhal_pages.layout.ordering import orders_of
from nnhal_pages.layout.placing import middles_of
from nnhal_pages.layout.ranks import ranks_of
from nnhal_pages.layout.shapes import GraphLayout, LayoutLink, NodeShape
from nnhal_pages.layout.trunks import Stretch, Ways, ways_of

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
