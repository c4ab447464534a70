"""Elements of SVG, and scales."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal_pages.document import palette
from nnhal_pages.svg import Drawing, Scale, drawing_style, element, label, lanes, rounded, title

NASTY = "<script>'1' & \"2\""


def test_an_element_has_attributes_and_content() -> None:
    assert element("rect", x=1.0, stroke_width=2, class_="a") == "<rect x='1' stroke-width='2' class='a'/>"
    assert element("g", "<a/>") == "<g><a/></g>"


def test_texts_and_attributes_are_escaped() -> None:
    assert ElementTree.fromstring(label(1, 2, NASTY, NASTY)).text == NASTY
    assert ElementTree.fromstring(element("g", title(NASTY), aria_label=NASTY)).attrib == {"aria-label": NASTY}


@pytest.mark.parametrize(("value", "text"), [(1.0, "1"), (1.25, "1.2"), (-0.06, "-0.1"), (100, "100.0")])
def test_coordinates_have_one_decimal_at_most(value: float, text: str) -> None:
    assert rounded(float(value)) == text.removesuffix(".0")


def test_a_scale_goes_from_values_to_positions() -> None:
    scale = Scale(10, 20, 100, 0)
    assert [scale(10), scale(15), scale(20)] == [100, 50, 0]


@given(st.floats(0, 1e9), st.floats(1e-3, 1e9), st.integers(2, 12))
def test_ticks_are_round_values_within_the_scale(low: float, length: float, count: int) -> None:
    scale = Scale(low, low + length, 0, 1)
    ticks = list(scale.ticks(count))
    assert len(ticks) <= count + 1
    assert all(scale.low - length * 1e-6 <= tick <= scale.high + length * 1e-6 for tick in ticks)


def test_there_are_enough_ticks() -> None:
    assert list(Scale(0, 100, 0, 1).ticks(5)) == [0, 20, 40, 60, 80, 100]
    assert list(Scale(0.3, 1.1, 0, 1).ticks(4)) == pytest.approx([0.4, 0.6, 0.8, 1.0])


def test_neighbours_have_different_colours() -> None:
    found = list(lanes("abcdefgh").values())
    assert all(one != other for one, other in pairwise(found))
    assert all(f".{name} " in drawing_style() for name in found)


def test_a_picture_as_a_file_has_its_style_and_its_title() -> None:
    document = ElementTree.fromstring(Drawing(10, 20, NASTY, element("rect", width=1)).document())
    names = [child.tag.rpartition("}")[2] for child in document]
    assert names == ["title", "style", "rect", "rect"]
    assert document[0].text == NASTY
    assert palette().strip() in (document[1].text or "")


def test_a_picture_on_a_page_says_what_it_shows() -> None:
    picture = ElementTree.fromstring(Drawing(10, 20, NASTY, "").embedded())
    assert picture.keys() == ["class", "role", "aria-label", "viewBox", "width", "height"]
    assert (picture.attrib["role"], picture.attrib["aria-label"]) == ("img", NASTY)
    assert ElementTree.fromstring(Drawing(1, 1, "", "", interactive=True).embedded()).attrib["role"] == "group"
