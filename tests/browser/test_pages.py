"""Every page, in windows of several widths, in all colours, by keyboard, and without script."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.support.browsing import WIDTHS, Visit, overflow

pytestmark = pytest.mark.browser

PAGES = (
    "/",
    "/devices",
    "/devices/ethos_u",
    "/processes/framework",
    "/models",
    "/models/digits",
    "/models/digits/plan",
    "/models/digits/plan?open=all&node=0",
    "/models/digits/plan?pin=index:0=cpu_ref",
    "/runs",
    "/try",
    "/try/digits",
    "/memory",
    "/sessions",
    "/metrics",
    "/metrics?range=24h",
    "/events",
    "/runs?from=2026-01-01T00:00:00Z",
    "/runs?sort=took",
    "/clients",
    "/logs",
    "/login",
)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_every_window_and_reads_well_in_all_colours(visit: Visit, path: str) -> None:
    page = visit.open(path)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert not overflow(page), f"{path} at {width} px"
    visit.check(page)
    page.emulate_media(color_scheme="dark")
    visit.check(page)
    page.emulate_media(color_scheme="light", forced_colors="active")
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def test_a_page_that_does_not_exist_says_so(visit: Visit) -> None:
    page = visit.open("/devices/unheard_of", 404)
    expect(page.get_by_text("unheard_of")).to_be_visible()
    page.get_by_role("link", name="Go to the overview").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
