"""Tall graphs in several columns."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from nnhal_pages.layout import GraphLayout, LayoutLink, NodeShape, in_columns, layered

LIMIT = 1000.0
SHAPE = NodeShape(100, 40)
Pairs = list[tuple[int, int]]


def broken(shapes: list[NodeShape], pairs: Pairs, returns: bool = False) -> GraphLayout:
    links = [LayoutLink(source, target, value=source) for source, target in pairs]
    return in_columns(layered(shapes, links, LIMIT), shapes, LIMIT, returns)


def chain(count: int, *more: tuple[int, int]) -> Pairs:
    return [*pairwise(range(count)), *more]


def test_a_long_chain_is_read_column_by_column() -> None:
    layout = broken([SHAPE] * 40, chain(40))
    columns = list(dict.fromkeys(x for x, _ in layout.places))
    assert len(columns) > 2
    assert columns == sorted(columns)
    assert layout.width <= LIMIT
    for left, top in layout.places:
        assert 0 <= left <= layout.width - SHAPE.width
        assert 0 <= top <= layout.height - SHAPE.height
    for (left, top), (next_left, next_top) in pairwise(layout.places):
        assert next_left > left or next_top > top


def test_a_line_goes_round_from_the_end_of_a_column_to_the_next_one() -> None:
    layout = broken([SHAPE] * 40, chain(40))
    jumps = [jump for bundle in layout.bundles for jump in bundle.jumps]
    assert len(jumps) == len({x for x, _ in layout.places}) - 1
    bottoms = {(x + 50, y + 40) for x, y in layout.places}
    tops = {(x + 50, y) for x, y in layout.places}
    for jump in jumps:
        assert jump[0] in bottoms
        assert jump[-1] in tops
        for (x, y), (end_x, end_y) in pairwise(jump):
            assert x == end_x or y == end_y


def test_short_graphs_and_wide_ones_stay_as_they_are() -> None:
    for shapes, pairs in (([SHAPE] * 4, chain(4)), ([NodeShape(700, 40)] * 40, chain(40))):
        links = [LayoutLink(source, target, value=source) for source, target in pairs]
        assert in_columns(layered(shapes, links, LIMIT), shapes, LIMIT) == layered(shapes, links, LIMIT)


def test_what_has_to_lie_last_returns_below_the_first_column() -> None:
    last = NodeShape(100, 40, last=True)
    layout = broken([NodeShape(100, 40, first=True), *[SHAPE] * 38, last], chain(40), returns=True)
    assert layout.places[-1][0] == layout.places[0][0]
    assert layout.places[-1][1] > max(y for _, y in layout.places[:-1]) + 40
    assert layout.height >= layout.places[-1][1] + 40


def test_a_graph_is_not_broken_where_many_lines_go_on() -> None:
    fan: Pairs = [(0, target) for target in range(1, 31)]
    assert not any(bundle.jumps for bundle in broken([SHAPE] * 31, fan).bundles)


@given(st.integers(20, 40), st.lists(st.tuples(st.integers(0, 39), st.integers(0, 39)), max_size=12))
def test_nodes_never_overlap_and_every_line_reaches_its_nodes(count: int, more: Pairs) -> None:
    pairs = chain(count, *((a, b) for a, b in more if a < b < count))
    layout = broken([SHAPE] * count, pairs)
    for number, (x, y) in enumerate(layout.places):
        assert -1e-6 <= x <= layout.width - SHAPE.width + 1e-6
        for left, top in layout.places[:number]:
            assert abs(x - left) >= SHAPE.width or abs(y - top) >= SHAPE.height
    for bundle in layout.bundles:
        points = {point for line in (*bundle.segments, *bundle.jumps) for point in line}
        for number in bundle.links:
            (x, y), (left, top) = (layout.places[end] for end in pairs[number])
            assert any(abs(px - x - 50) < 1e-6 and abs(py - y - 40) < 1e-6 for px, py in points)
            assert any(abs(px - left - 50) < 1e-6 and abs(py - top) < 1e-6 for px, py in points)
