"""Input and result of a layout. Lengths are units of a picture."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

Point = tuple[float, float]
Segment = tuple[Point, Point]
"""A piece of a line, from a point to one below it."""


@dataclass(frozen=True, slots=True)
class NodeShape:
    """The room that a node takes, and whether it has to lie at the upper or the lower end of the graph."""

    width: float
    height: float
    first: bool = False
    last: bool = False


@dataclass(frozen=True, slots=True)
class LayoutLink:
    """A line from the lower side of a node to the upper side of another one."""

    source: int
    target: int
    source_x: float = 0
    """Where it begins, from the middle of the source."""
    target_x: float = 0
    """Where it ends, from the middle of the target."""
    value: Hashable = None
    """What it carries. Lines of one value from one node share their way."""
    kind: Hashable = None
    """How it is drawn. Lines of one kind to one node share their way too."""


@dataclass(frozen=True, slots=True)
class LineBundle:
    """Lines that share a way."""

    links: tuple[int, ...]
    """The numbers of the links."""
    segments: tuple[Segment, ...]
    ends: tuple[Point, ...]
    """Where its targets are: each has an arrow head."""
    upwards: bool = False
    """True if it goes against the direction of the graph, as a link that closes a cycle does. Its segments then go
    from its target to its source.
    """
    jumps: tuple[tuple[Point, ...], ...] = ()
    """The corners of lines that go from the end of a column to the beginning of the next one."""


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """The places of all nodes, and the ways of all links."""

    width: float
    height: float
    places: tuple[Point, ...]
    """The upper left corner of each node."""
    bundles: tuple[LineBundle, ...]
    cut: tuple[int, ...]
    """The links for which there is no way, since they are too many and too long."""
