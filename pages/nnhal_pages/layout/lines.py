"""The lines of ways, once nodes and bends have places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nnhal_pages.layout.shapes import LayoutLink, LineBundle, NodeShape, Point, Segment
from nnhal_pages.layout.trunks import Stretch, Trunk


@dataclass(frozen=True, slots=True)
class RankedPlaces:
    """Where nodes and bends lie. The numbers of bends follow those of nodes."""

    shapes: Sequence[NodeShape]
    ranks: Sequence[int]
    middles: Sequence[float]
    tops: Sequence[float]
    """Of ranks."""
    heights: Sequence[float]
    """Of ranks."""

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
