"""The graph of a plan of 2,000 operations: found, folded, zoomed, seen as a whole, and walked by keyboard."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import StartVisit
from tests.dashboard.pages.models.scripted_models import browser_of, runs_by, served
from tests.support.browsing import Visit, overflow, visiting
from tests.support.explanations import explained, scoped

pytestmark = pytest.mark.browser

_PLAN = "/models/deep/plan"
_OPERATIONS = 2000
_SECONDS = 60_000
"""Milliseconds: a whole graph of 2,000 boxes may take long on a machine that others use too."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Serve pages over a framework that a test writes, with a model of 2,000 operations."""
    pages = browser_of(served("deep"))
    runs_by(pages, explained(scoped(_OPERATIONS)))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(pages.app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            pages.streams.close()
            thread.join()


@pytest.fixture
def start(browser: Browser, address: str) -> Iterator[StartVisit]:
    """Return what starts visits of these pages."""
    visits = []

    def begin(**options: Any) -> Visit:
        context = visiting(browser, address, **options)
        visits.append(context)
        visit = context.__enter__()
        visit.context.set_default_timeout(_SECONDS)
        return visit

    yield begin
    for context in reversed(visits):
        context.__exit__(None, None, None)


def _box(page: Page, number: int) -> Locator:
    return page.locator(f"#old-operation-{number}")


def _is_in_the_middle(page: Page, number: int) -> None:
    """Wait until a box is in the middle of the view of the graph."""
    page.wait_for_function(
        """(id) => {
            const box = document.getElementById(id)?.getBoundingClientRect();
            const view = document.querySelector(".graph-view").getBoundingClientRect();
            const near = (one, other, room) => Math.abs(one - other) < room / 10 + 24;
            return box && near(box.y + box.height / 2, view.y + view.height / 2, view.height);
        }""",
        arg=f"old-operation-{number}",
    )


def test_an_operation_is_found_by_keyboard_and_comes_to_the_middle(start: StartVisit) -> None:
    page = start().open(_PLAN)
    page.keyboard.press("/")
    field = page.get_by_label("Find operations")
    expect(field).to_be_focused()
    page.keyboard.type("node1234")
    expect(page.locator(".found a")).to_have_text("encoder/block30/mlp/node1234")
    page.keyboard.press("Enter")
    expect(_box(page, 1234)).to_have_class("node lane-1 selected")
    _is_in_the_middle(page, 1234)
    expect(page.locator("#chosen h2")).to_have_text("Operation 1234")
    expect(page.get_by_label("Find operations")).to_have_value("node1234")
    _box(page, 1234).focus()
    page.keyboard.press("ArrowDown")
    expect(_box(page, 1235)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#chosen h2")).to_have_text("Operation 1235")


def test_scopes_fold_and_unfold(start: StartVisit) -> None:
    visit = start()
    page = visit.open(f"{_PLAN}?open=all")
    expect(page.locator(".graph .scope")).to_have_count(50)
    page.locator(".graph .scope").nth(7).click()
    expect(page.locator(".graph .scope")).to_have_count(51)
    visit.check(page)
    page.get_by_role("link", name="Fold encoder/block7", exact=True).click()
    expect(page.locator(".graph .scope")).to_have_count(50)
    page.get_by_role("link", name="Unfold all scopes").click()
    expect(_box(page, _OPERATIONS - 1)).to_be_attached(timeout=_SECONDS)


def test_the_graph_is_zoomed_and_its_map_leads_to_any_part(start: StartVisit) -> None:
    page = start().open(f"{_PLAN}?open=all&unfolded=all")
    scale = page.locator(".graph-tools output")
    width = page.locator(".graph-view .drawing")
    full = width.get_attribute("viewBox")
    assert full is not None
    page.get_by_role("button", name="Full size").click()
    expect(scale).to_have_text("100 %")
    expect(width).to_have_attribute("width", full.split()[2])
    page.get_by_role("button", name="Zoom out").click()
    expect(scale).to_have_text("80 %")
    page.locator(".graph-view").focus()
    page.keyboard.press("1")
    expect(scale).to_have_text("100 %")
    expect(page.locator(".graph-map .box")).to_have_count(_OPERATIONS)
    small = page.locator(".graph-map").bounding_box()
    assert small is not None
    page.mouse.click(small["x"] + small["width"] / 2, small["y"] + small["height"] * 0.75)
    page.wait_for_function(
        """() => {
            const view = document.querySelector(".graph-view");
            return Math.abs((view.scrollTop + view.clientHeight / 2) / view.scrollHeight - 0.75) < 0.05;
        }"""
    )
    page.get_by_role("button", name="Fit into the view").click()
    page.wait_for_function(
        """() => {
            const view = document.querySelector(".graph-view");
            return view.scrollHeight <= view.clientHeight + 1 && view.scrollWidth <= view.clientWidth + 1;
        }"""
    )


def test_without_script_operations_are_found_and_shown_too(start: StartVisit) -> None:
    page = start(java_script_enabled=False).open(_PLAN)
    page.get_by_label("Find operations").fill("node1234")
    page.get_by_role("button", name="Find", exact=True).click()
    page.get_by_role("link", name="encoder/block30/mlp/node1234").click()
    expect(_box(page, 1234)).to_be_in_viewport()
    expect(page.locator("#chosen h2")).to_have_text("Operation 1234")


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_phone_has_all_of_it(start: StartVisit, colours: str) -> None:
    visit = start(viewport={"width": 390, "height": 844}, color_scheme=colours)
    page = visit.open(f"{_PLAN}?open=all&find=node1234&node=1234")
    assert not overflow(page)
    expect(page.locator(".graph-tools")).to_be_visible()
    visit.check(page)
