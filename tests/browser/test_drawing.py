"""A digit that is drawn in the browser is classified by a model."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin

import pytest
from playwright.sync_api import Page, expect

from tests.support.browsing import Visit

pytestmark = pytest.mark.browser

Stroke = Sequence[tuple[float, float]]
"""Points from 0 to 1, from the left and from the top."""

_ZERO = [(0.5 + 0.2 * cos(pi * n / 16), 0.5 + 0.32 * sin(pi * n / 16)) for n in range(33)]
_ONE = [(0.35, 0.3), (0.52, 0.15), (0.52, 0.85)]


@pytest.mark.parametrize(("digit", "stroke"), [("0", _ZERO), ("1", _ONE)])
def test_a_drawn_digit_gives_its_class(visit: Visit, digit: str, stroke: Stroke) -> None:
    page = visit.open("/try")
    page.get_by_role("main").get_by_role("link", name="digits", exact=True).click()
    page.wait_for_load_state()  # so that the canvas has its script
    _draw(page, stroke)
    page.get_by_role("button", name="Run", exact=True).click()
    best = page.get_by_role("table", name="The largest values").get_by_role("rowheader").first
    expect(best).to_have_text(digit)


def test_a_model_is_tried_by_keyboard(visit: Visit) -> None:
    page = visit.open("/try/digits")
    page.get_by_role("radio", name="Random numbers").check()
    page.get_by_role("button", name="Run", exact=True).press("Enter")
    expect(page.get_by_role("heading", name="What came of it")).to_be_visible()


def _draw(page: Page, stroke: Stroke) -> None:
    canvas = page.locator("canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    points = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in stroke]
    page.mouse.move(*points[0])
    page.mouse.down()
    for x, y in points[1:]:
        page.mouse.move(x, y, steps=5)
    page.mouse.up()
