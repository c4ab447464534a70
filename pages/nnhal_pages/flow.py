"""Flows from column to column: blocks, and bands between them that are as wide as what flows there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from nnhal_pages.svg import Drawing, element, label, rounded, title
from nnhal_pages.text import clipped, shortened

_HEAD = 30
"""The height of the names of columns."""
_LINE, _PADDING = 15, 7
_APART, _IDLE_APART = 10, 3
"""Between blocks, and between those that are small."""
_THINNEST, _WIDEST = 1.5, 22.0
_NAME_CHARACTER, _LINE_CHARACTER = 6.7, 5.9
"""How wide a character is, of a name and of a line below it."""


@dataclass(frozen=True, slots=True)
class FlowBlock:
    """A block, which leads to a page."""

    key: Hashable
    name: str
    address: str
    lines: tuple[str, ...] = ()
    """The text below its name."""
    look: str = ""
    """``idle`` if it is to recede, ``lost`` if it should work and does not."""
    warning: str = ""
    """One more line, which stands out."""


@dataclass(frozen=True, slots=True)
class FlowBand:
    """A band from a block to one of a column further right."""

    source: Hashable
    target: Hashable
    amount: float
    """How much flows; 0 draws a line."""
    look: str
    """Its class, which has its colour."""
    words: str
    """What it shows, for those who point at it."""


@dataclass(slots=True)
class _Block:
    node: FlowBlock
    x: float
    height: float
    y: float = 0.0
    left: float = 0.0
    """How far bands fill its left side, and its right side."""
    right: float = 0.0

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


def flow_picture(
    what: str,
    columns: Sequence[tuple[str, Sequence[FlowBlock]]],
    edges: Sequence[FlowBand],
    width: int,
    block_width: int,
) -> Drawing:
    """Draw columns of blocks with their names, the first at the left.

    Within a column, blocks keep their order. Bands share one scale: their area grows with what flows, so that a little
    is still seen beside a lot.
    """
    most = max((edge.amount for edge in edges), default=0.0) or 1.0
    sizes = [_THINNEST + _WIDEST * sqrt(edge.amount / most) if edge.amount else 0.0 for edge in edges]
    step = (width - block_width) / max(len(columns) - 1, 1)
    blocks = _placed(columns, edges, sizes, step)
    height = max((block.y + block.height for block in blocks.values()), default=0.0) + 2
    parts = [label(number * step, 14, name, "flow-head") for number, (name, nodes) in enumerate(columns) if nodes]
    parts += _bands(edges, sizes, blocks, block_width)
    parts += [_drawn(block, block_width) for block in blocks.values()]
    return Drawing(width, round(height), what, "".join(parts), interactive=True)


def _placed(
    columns: Sequence[tuple[str, Sequence[FlowBlock]]], edges: Sequence[FlowBand], sizes: Sequence[float], step: float
) -> dict[Hashable, _Block]:
    """Place the blocks: each is as high as its words and its bands, and lower columns stand in the middle."""
    sides: dict[tuple[Hashable, bool], float] = defaultdict(float)
    for edge, size in zip(edges, sizes, strict=True):
        sides[edge.source, True] += size + 1
        sides[edge.target, False] += size + 1
    blocks: dict[Hashable, _Block] = {}
    heights = []
    for number, (_, nodes) in enumerate(columns):
        y = float(_HEAD)
        for node in nodes:
            lines = len(node.lines) + bool(node.warning)
            words = 2 * _PADDING + _LINE * (1 + lines) if lines else _LINE + 4
            block = _Block(node, number * step, max(words, sides[node.key, True], sides[node.key, False]), y)
            blocks[node.key] = block
            y += block.height + (_APART if lines else _IDLE_APART)
        heights.append(y)
    for (_, nodes), height in zip(columns, heights, strict=True):
        for node in nodes:
            blocks[node.key].y += (max(heights) - height) / 2
    for block in blocks.values():
        block.left, block.right = (
            block.y + (block.height - sides[block.node.key, is_right]) / 2 for is_right in (False, True)
        )
    return blocks


def _bands(
    edges: Sequence[FlowBand], sizes: Sequence[float], blocks: Mapping[Hashable, _Block], block_width: float
) -> list[str]:
    """Draw bands, which leave and reach each block in the order of its neighbours, so that few of them cross."""
    starts, ends = [0.0] * len(edges), [0.0] * len(edges)
    numbers = range(len(edges))
    for number in sorted(numbers, key=lambda each: blocks[edges[each].target].middle):
        block = blocks[edges[number].source]
        starts[number], block.right = block.right, block.right + sizes[number] + 1
    for number in sorted(numbers, key=lambda each: blocks[edges[each].source].middle):
        block = blocks[edges[number].target]
        ends[number], block.left = block.left, block.left + sizes[number] + 1
    drawn = []
    for number in sorted(numbers, key=lambda each: -sizes[each]):
        edge, size = edges[number], sizes[number]
        x, to = blocks[edge.source].x + block_width, blocks[edge.target].x
        middle, start, end = (x + to) / 2, starts[number], ends[number]
        way = f"M{_point(x, start)}{_curve(start, end, middle, to)}"
        if size:
            way += f"V{rounded(end + size)}{_curve(end + size, start + size, middle, x)}Z"
        look = f"band {edge.look}" if size else f"thread {edge.look}"
        drawn.append(element("path", title(edge.words), class_=look, d=way))
    return drawn


def _curve(start: float, end: float, middle: float, to: float) -> str:
    return f"C{_point(middle, start)} {_point(middle, end)} {_point(to, end)}"


def _point(x: float, y: float) -> str:
    return f"{rounded(x)} {rounded(y)}"


def _drawn(block: _Block, width: float) -> str:
    node, x, y = block.node, block.x, block.y
    has_notes = bool(node.lines or node.warning)
    room = width - 2 * _PADDING
    parts = [
        title(node.name, *node.lines, *filter(None, [node.warning])),
        element("rect", class_="block", x=x, y=y, width=width, height=block.height),
        element("rect", class_="edge", x=x, y=y, width=3, height=block.height),
    ]
    lines = [("flow-name", node.name, _NAME_CHARACTER), *(("muted", line, _LINE_CHARACTER) for line in node.lines)]
    if node.warning:
        lines.append(("flow-warning", node.warning, _LINE_CHARACTER))
    top = y + (block.height - _LINE * len(lines)) / 2 + (11.5 if has_notes else 11)
    for number, (look, text, character) in enumerate(lines):
        words = (shortened if look == "flow-name" else clipped)(text, int(room / character))
        parts.append(label(x + _PADDING + 3, top + number * _LINE, words, look))
    look = f"flow-node {node.look}".rstrip()
    return element("a", "".join(parts), href=node.address, class_=look)
