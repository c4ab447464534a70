"""A model whose every name is an attack, told of on a page."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from nnhal_client.explanation import ArenaStory, Counterfactual, DeviceStory, Explanation
from nnhal_pages.explanation.fragment import page
from tests.support.explanations import Placed, explained
from tests.support.html import parsed

ATTACKS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onfocus='alert(1)' autofocus='",
    "javascript:alert(1)",
    "</title></style></svg><svg onload=alert(1)>",
    "]]><!--",
    "&lt;script&gt; &#60;",
    "\u202etxt.exe\u2066",
    "line\nbreak\r\0",
    "url(#x);}</style>",
    "{{7*7}}{% raw %}",
    "x" * 5000,
]
ALLOWED = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "main",
        "h1",
        "h2",
        "section",
        "p",
        "div",
        "span",
        "br",
        "code",
    ),
    *("dl", "dt", "dd", "ul", "li", "a", "details", "summary"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("svg", "g", "defs", "pattern", "rect", "path", "circle", "line", "text"),
}
ATTRIBUTES = {
    *("lang", "charset", "name", "content", "class", "id", "role", "aria-label", "aria-hidden", "tabindex", "title"),
    *(
        "scope",
        "colspan",
        "data-label",
        "data-operation",
        "href",
        "viewbox",
        "width",
        "height",
        "x",
        "y",
        "rx",
        "d",
        "fill",
        "transform",
    ),
    *("cx", "cy", "r", "x1", "x2", "y1", "y2", "patternunits"),
}


def attacked(text: str) -> Explanation:
    """A plan of two steps in which every string is the attack."""
    plan = explained(
        [
            Placed(text, text, text, (text + "0",), (text + "1",), {"gpu": text}, text),
            Placed(text, text, "cpu", (text + "1",), (text + "2",), {text: text}),
        ],
        devices=(text, "gpu", "cpu"),
    )
    return replace(
        plan,
        edges=tuple(
            replace(edge, strategy=text, layer=text, memory=text, reason=text, sync=True) for edge in plan.edges
        ),
        steps=tuple(replace(step, optimizations=(text,)) for step in plan.steps),
        devices=(DeviceStory(text, text, True), DeviceStory("gpu", text, True), DeviceStory("cpu", text, False)),
        counterfactuals=(Counterfactual(text, 0.0, text),),
        arena_values=(ArenaStory(text, text, 0, 4096, 0, 1),),
    )


@pytest.mark.parametrize("text", ATTACKS, ids=range(len(ATTACKS)))
def test_a_name_is_a_text_and_nothing_else(text: str) -> None:
    written = page(attacked(text), text)
    document = parsed(written)
    assert {element.tag for element in document.elements} <= ALLOWED
    assert {name for element in document.elements for name in element.attributes} <= ATTRIBUTES
    assert all(re.fullmatch(r"#plan-[a-z0-9-]+", element.attributes["href"]) for element in document.all("a"))
    fills = [element.attributes["fill"] for element in document.elements if "fill" in element.attributes]
    assert all(re.fullmatch(r"url\(#[a-z0-9-]+\)", fill) for fill in fills)
    places = [element.attributes["id"] for element in document.elements if "id" in element.attributes]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("text", ATTACKS, ids=range(len(ATTACKS)))
def test_no_character_of_a_name_changes_what_is_around_it(text: str) -> None:
    assert not re.search("[\0\r\u202a-\u202e\u2066-\u2069]", page(attacked(text), text))


def test_a_page_loads_nothing() -> None:
    written = page(attacked(ATTACKS[0]), "a page")
    assert not re.search(r"<link|<img|<script|@import|url\((?!#)|https?://|\ssrc=", written)
