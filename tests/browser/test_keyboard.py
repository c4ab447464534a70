"""The whole dashboard by keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.support.browsing import Visit

pytestmark = pytest.mark.browser

_MOST = 400


def test_the_skip_link_comes_first_and_leads_past_the_navigation(visit: Visit) -> None:
    page = visit.open("/devices")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")


@pytest.mark.parametrize("path", ["/", "/devices", "/devices/cpu_ref", "/models", "/models/digits", "/logs"])
def test_tab_reaches_every_control_in_order_and_shows_where_it_is(visit: Visit, path: str) -> None:
    page = visit.open(path)
    order = _tab_order(page)
    controls: list[int] = page.evaluate(
        """() => [...document.querySelectorAll("[data-place]")].map((each) => Number(each.dataset.place))"""
    )
    assert order == controls


def test_a_page_is_reached_and_used_without_a_pointer(visit: Visit) -> None:
    page = visit.open("/")
    _tab_to(page, "link", "Logs")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Logs")
    _tab_to(page, "textbox", "Contains")
    page.keyboard.type("no such line")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No line is as asked.")).to_be_visible()


def _tab_to(page: Page, role: str, name: str) -> None:
    wanted = page.get_by_role(role, name=name)  # type: ignore[arg-type]
    for _ in range(_MOST):
        page.keyboard.press("Tab")
        if wanted.evaluate("(each) => each === document.activeElement"):
            return
    raise AssertionError(f"Tab does not reach the {role} {name!r}")


def _tab_order(page: Page) -> list[int]:
    """Press Tab through a page whose live parts stand still, and return the places of what had the focus."""
    page.evaluate(
        """() => {
            const shown = (each) => each.checkVisibility() && !each.disabled && each.tabIndex >= 0;
            const all = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]";
            for (const part of document.querySelectorAll("[data-live]")) part.replaceWith(part.cloneNode(true));
            let place = 0;
            for (const each of document.querySelectorAll(all)) if (shown(each)) each.dataset.place = place++;
        }"""
    )
    order: list[int] = []
    for _ in range(_MOST):
        page.keyboard.press("Tab")
        place, outline, is_seen = page.evaluate(
            """() => {
                const each = document.activeElement, style = getComputedStyle(each), box = each.getBoundingClientRect();
                return [Number(each.dataset?.place ?? -1), style.outlineStyle, box.width > 0 && box.bottom > 0];
            }"""
        )
        if place < 0:
            return order
        assert outline != "none", f"no outline at place {place}"
        assert is_seen, f"the focus is out of sight at place {place}"
        order.append(place)
    raise AssertionError(f"Tab does not end after {_MOST} places")
