"""The layout of directed graphs: what any layout has to keep, and how some shapes look."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal_pages.layout import GraphLayout, LayoutLink, NodeShape, layered

LIMIT = 1000.0
SHAPE = NodeShape(100, 40)
Pairs = list[tuple[int, int]]


def laid_out(count: int, pairs: Pairs, **shapes: NodeShape) -> GraphLayout:
    """A graph of equal nodes, but for ``n3=NodeShape(…)``."""
    nodes = [shapes.get(f"n{number}", SHAPE) for number in range(count)]
    return layered(nodes, [LayoutLink(source, target, value=source) for source, target in pairs], LIMIT)


def chain(count: int) -> Pairs:
    return list(pairwise(range(count)))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, Pairs]:
    count = draw(st.integers(1, 14))
    node = st.integers(0, count - 1)
    return count, draw(st.lists(st.tuples(node, node), max_size=30))


@given(graphs())
def test_nodes_never_overlap_and_lie_within_the_graph(graph: tuple[int, Pairs]) -> None:
    layout = laid_out(*graph)
    for number, (x, y) in enumerate(layout.places):
        assert -1e-6 <= x <= layout.width - SHAPE.width + 1e-6
        assert 0 <= y <= layout.height - SHAPE.height + 1e-6
        for left, top in layout.places[:number]:
            assert abs(x - left) >= SHAPE.width or abs(y - top) >= SHAPE.height


@given(graphs())
def test_every_link_has_a_line_from_its_source_to_its_target(graph: tuple[int, Pairs]) -> None:
    count, pairs = graph
    layout = laid_out(count, pairs)
    drawn = {number for bundle in layout.bundles for number in bundle.links}
    assert drawn == {number for number, (source, target) in enumerate(pairs) if source != target}
    assert not layout.cut
    for bundle in layout.bundles:
        points = {point for segment in bundle.segments for point in segment}
        for number in bundle.links:
            upper, lower = reversed(pairs[number]) if bundle.upwards else pairs[number]
            (x, y), (left, top) = layout.places[upper], layout.places[lower]
            assert any(abs(px - x - 50) < 1e-6 and abs(py - y - 40) < 1e-6 for px, py in points)
            assert any(abs(px - left - 50) < 1e-6 and abs(py - top) < 1e-6 for px, py in points)


@given(graphs())
def test_the_same_graph_has_the_same_layout(graph: tuple[int, Pairs]) -> None:
    assert laid_out(*graph) == laid_out(*graph)


def test_a_chain_is_straight() -> None:
    layout = laid_out(50, chain(50))
    assert {x for x, _ in layout.places} == {0.0}
    assert all(upper[1] + 40 < lower[1] for upper, lower in pairwise(layout.places))


def test_a_link_past_others_leaves_the_chain_straight() -> None:
    layout = laid_out(10, [*chain(10), (2, 7)])
    assert len({x for x, _ in layout.places}) == 1


def test_a_node_is_between_its_branches() -> None:
    layout = laid_out(4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    (top, _), (left, _), (right, _), (bottom, _) = layout.places
    assert (left + right) / 2 == top == bottom
    assert abs(left - right) > SHAPE.width


def test_branches_that_cross_are_put_in_another_order() -> None:
    layout = laid_out(6, [(0, 5), (1, 4), (2, 3)])
    upper = [layout.places[node][0] for node in (0, 1, 2)]
    assert [layout.places[node][0] for node in (5, 4, 3)] == pytest.approx(upper)


def test_a_rank_that_is_too_wide_becomes_several() -> None:
    middle = range(1, 101)
    layout = laid_out(102, [*((0, node) for node in middle), *((node, 101) for node in middle)])
    rows = {y for _, y in layout.places[1:101]}
    assert len(rows) >= 100 * SHAPE.width / LIMIT
    assert layout.width < 2 * LIMIT


def test_a_value_of_thousands_of_consumers_has_few_lines() -> None:
    links = [LayoutLink(0, node, value="mask") for node in range(1, 3001)]
    layout = layered([SHAPE] * 3001, links, LIMIT)
    assert len(layout.bundles) < 20
    assert sum(len(bundle.ends) for bundle in layout.bundles) == 3000


def test_links_that_are_too_many_and_too_long_are_cut() -> None:
    count = 300
    pairs = [(source, target) for target in range(count) for source in range(target)]
    layout = laid_out(count, pairs)
    drawn = [number for bundle in layout.bundles for number in bundle.links]
    assert layout.cut
    assert sorted([*drawn, *layout.cut]) == list(range(len(pairs)))
    assert {pairs.index(pair) for pair in chain(count)} <= set(drawn)


def test_a_link_that_closes_a_cycle_goes_upwards() -> None:
    layout = laid_out(4, [*chain(4), (3, 1), (2, 2)])
    (back,) = [bundle for bundle in layout.bundles if bundle.upwards]
    assert back.links == (3,)
    ((_, y),) = back.ends
    assert y == layout.places[1][1] + SHAPE.height


def test_marked_nodes_are_at_the_ends_whatever_is_linked() -> None:
    ends = {"n8": NodeShape(100, 40, first=True), "n9": NodeShape(100, 40, last=True)}
    layout = laid_out(10, [*chain(8), (8, 7), (0, 9)], **ends)
    heights = [y for _, y in layout.places]
    assert heights[8] == min(heights) == 0
    assert heights[9] == max(heights)
    assert heights.count(0) == 1


def test_a_source_is_near_what_reads_it() -> None:
    layout = laid_out(7, [*chain(6), (6, 5)])
    assert layout.places[6][1] == layout.places[4][1]


def test_lines_begin_and_end_aside_of_the_middle_if_they_are_told() -> None:
    layout = layered([SHAPE, SHAPE], [LayoutLink(0, 1, source_x=30, target_x=-20)], LIMIT)
    ((x, _), _) = layout.bundles[0].segments[0]
    ((end, _),) = layout.bundles[0].ends
    assert x == layout.places[0][0] + 50 + 30
    assert end == layout.places[1][0] + 50 - 20
    assert x == end


def test_nothing_has_no_extent() -> None:
    assert laid_out(0, []) == GraphLayout(0.0, 0.0, (), (), ())


def test_parts_without_a_link_are_side_by_side() -> None:
    layout = laid_out(6, [(0, 1), (2, 3), (4, 5)])
    assert len({y for _, y in layout.places}) == 2


def test_a_random_graph_of_a_thousand_nodes_is_laid_out() -> None:
    rng = random.Random(1)
    pairs = [(rng.randrange(node), node) for node in range(1, 1000) for _ in range(2)]
    layout = laid_out(1000, pairs)
    assert len(layout.places) == 1000
