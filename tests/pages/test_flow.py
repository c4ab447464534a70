"""Pictures of what flows between columns of blocks."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from nnhal_pages.flow import FlowBand, FlowBlock, flow_picture
from tests.support.html import parsed


def node(key: str, **fields: object) -> FlowBlock:
    return FlowBlock(key, key, f"/{key}", **fields)  # type: ignore[arg-type]


def heights(svg: str) -> list[float]:
    """Return the width of each band where it begins: the way goes from its upper to its lower corner at the left."""
    ways = re.findall(r"class='band [^']*' d='M[\d.]+ ([\d.]+)C.*?C[^']* [\d.]+ ([\d.]+)Z'", svg)
    return [float(low) - float(high) for high, low in ways]


def test_bands_grow_with_what_flows_and_a_little_is_still_seen() -> None:
    edges = [FlowBand("a", "x", 1.0, "cool", "little"), FlowBand("b", "x", 1e6, "hot", "much")]
    columns = [("From", [node("a"), node("b")]), ("To", [node("x")])]
    widest, thinnest = heights(flow_picture("a picture", columns, edges, 600, 100).content)
    assert widest > 10 * thinnest
    assert thinnest >= 1


def test_what_carries_nothing_is_a_line() -> None:
    columns = [("From", [node("a")]), ("To", [node("x")])]
    svg = flow_picture("a picture", columns, [FlowBand("a", "x", 0.0, "idle", "nothing")], 600, 100).content
    assert "class='thread idle'" in svg
    assert "band" not in svg


def test_each_block_leads_to_its_page_and_says_what_it_is() -> None:
    hostile = FlowBlock("a", "<script>alert(1)</script>", "/a?x='", ("5/s",), warning="2/s fail")
    page = parsed(flow_picture("a picture", [("Only", [hostile])], [], 600, 200).embedded())
    (link,) = page.all("a")
    assert link.attributes["href"] == "/a?x='"
    assert "5/s" in link.text
    assert "2/s fail" in link.text
    assert not page.all("script")


@pytest.mark.parametrize("count", [1, 12])
def test_blocks_of_a_column_do_not_overlap(count: int) -> None:
    nodes = [node(f"n{number}", lines=("a", "b") if number % 2 else ()) for number in range(count)]
    edges = [FlowBand("s", each.key, 1e6, "cool", "") for each in nodes]
    drawing = flow_picture("a picture", [("From", [node("s")]), ("To", nodes)], edges, 600, 100)
    blocks = re.findall(r"class='block' x='500' y='([\d.]+)' width='100' height='([\d.]+)'", drawing.content)
    assert len(blocks) == count
    ends = [(float(y), float(y) + float(height)) for y, height in blocks]
    assert all(end < begin for (_, end), (begin, _) in pairwise(ends))
    assert ends[-1][1] <= drawing.height
