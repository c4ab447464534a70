"""Looking at drawings: their elements, their words, and whether words overlap."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple
from xml.etree.ElementTree import Element, fromstring

from nnhal_pages.svg import Drawing, drawing_style, width_of

_LINE = 11
"""The height of letters, without what is around them."""


class _Place(NamedTuple):
    left: float
    right: float
    top: float
    bottom: float
    text: str


def parsed(drawing: Drawing) -> Element:
    """The drawing as a page has it. It must be well-formed, have no style of its own and no script."""
    picture = fromstring(drawing.embedded())
    for each in picture.iter():
        assert "style" not in each.attrib, each.attrib
        assert each.tag not in ("script", "style", "foreignObject")
        assert not any(name.startswith("on") for name in each.attrib)
    return picture


def having(picture: Element, name: str) -> list[Element]:
    return [each for each in picture.iter() if name in each.get("class", "").split()]


def texts(picture: Element) -> list[str]:
    """The words that are drawn, without those beside the pointer."""
    return [each.text or "" for each in picture.iter("text")]


def titles(picture: Element) -> list[str]:
    return [each.text or "" for each in picture.iter("title")]


def number(element: Element, name: str) -> float:
    return float(element.attrib[name])


def assert_drawn_well(drawing: Drawing) -> Element:
    """No words overlap or leave the drawing, every pattern is defined, every class has a rule. Returns the picture."""
    picture = parsed(drawing)
    hidden = {id(each) for tip in having(picture, "tip") for each in tip.iter("text")}
    places = [_place(each) for each in picture.iter("text") if id(each) not in hidden]
    for one, other in combinations(places, 2):
        assert (
            one.right <= other.left or other.right <= one.left or one.bottom <= other.top or other.bottom <= one.top
        ), (
            one,
            other,
        )
    for place in places:
        assert place.left >= 0 and place.right <= drawing.width, place
        assert place.top >= 0 and place.bottom <= drawing.height, place
    defined = [each.attrib["id"] for each in picture.iter() if "id" in each.attrib]
    assert len(defined) == len(set(defined))
    assert set(re.findall(r"url\(#([^)]+)\)", drawing.content)) <= set(defined)
    assert_classes_have_rules(picture.iter())
    return picture


def assert_classes_have_rules(elements: Iterable[Element]) -> None:
    """Every class that is used is in the style sheet."""
    used = {name for each in elements for name in each.get("class", "").split()}
    assert {name for name in used if not re.search(rf"\.{name}[\s,.:{{]", drawing_style())} == set()


def _place(text: Element) -> _Place:
    words, x, y = text.text or "", number(text, "x"), number(text, "y")
    classes, width = text.get("class", "").split(), width_of(text.text or "")
    left = x - width if "end" in classes else x - width / 2 if "middle" in classes else x
    return _Place(left, left + width, y - _LINE + 2, y + 2, words)
