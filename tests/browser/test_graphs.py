"""The graph of a plan of 2,000 operations: found, folded, zoomed, seen as a whole, and walked by keyboard."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import StartVisit
from tests.dashboard.pages.models.scripted_models import browser_of, runs_by, script_of, served
from tests.support.browsing import Visit, overflow, visiting
from tests.support.explanations import explained, scoped

pytestmark = pytest.mark.browser

_OPERATIONS = 2000
_MILLISECONDS = 60_000
"""A whole graph of 2,000 boxes may take long on a machine that others use too."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Serve pages over a framework that a test writes: a model of 2,000 operations, and one of 120."""
    pages = browser_of(served("deep"), served("small"))
    plans = {}
    for name, count in (("deep", _OPERATIONS), ("small", 120)):
        runs_by(pages, explained(scoped(count)))
        plans[name] = script_of(pages).answers["framework", "explain"]
    script_of(pages).answers["framework", "explain"] = lambda target: plans[target.model]
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
    with ExitStack() as visits:

        def begin(**options: Any) -> Visit:
            visit = visits.enter_context(visiting(browser, address, **options))
            visit.context.set_default_timeout(_MILLISECONDS)
            return visit

        yield begin


def _box(page: Page, number: int) -> Locator:
    return page.locator(f"#old-operation-{number}")


def test_an_operation_of_two_thousand_is_found_by_keyboard_and_the_map_leads_to_any_part(start: StartVisit) -> None:
    page = start().open("/models/deep/plan?open=all&unfolded=all")
    expect(page.locator(".graph-map .box")).to_have_count(_OPERATIONS, timeout=_MILLISECONDS)
    page.keyboard.press("/")
    expect(page.get_by_label("Find operations")).to_be_focused()
    page.keyboard.type("node1234")
    expect(page.locator(".found a")).to_have_text("encoder/block30/mlp/node1234", timeout=_MILLISECONDS)
    page.keyboard.press("Enter")
    expect(page.locator("#chosen h2")).to_have_text("Operation 1234", timeout=_MILLISECONDS)
    expect(_box(page, 1234)).to_have_class(re.compile(r"\bselected\b"))
    page.wait_for_function(
        """(id) => {
            const box = document.getElementById(id).getBoundingClientRect();
            const view = document.querySelector(".graph-view").getBoundingClientRect();
            return Math.abs(box.y + box.height / 2 - view.y - view.height / 2) < view.height / 10;
        }""",
        arg="old-operation-1234",
    )
    small = page.locator(".graph-map")
    small.scroll_into_view_if_needed()
    small.click(position={"x": 40, "y": 10})
    page.wait_for_function("() => document.querySelector('.graph-view').scrollTop < 4000")
    page.close()  # axe would take minutes over so many boxes; it sees the same in small below


def test_a_graph_is_zoomed(start: StartVisit) -> None:
    page = start().open("/models/small/plan?open=all&unfolded=all")
    scale, drawing = page.locator(".graph-tools output"), page.locator(".graph-view .drawing")
    page.get_by_role("button", name="Full size").click()
    expect(scale).to_have_text("100 %")
    box = drawing.get_attribute("viewBox")
    assert box is not None
    expect(drawing).to_have_attribute("width", box.split()[2])
    page.get_by_role("button", name="Zoom out").click()
    expect(scale).to_have_text("80 %")
    page.locator(".graph-view").focus()
    page.keyboard.press("1")
    expect(scale).to_have_text("100 %")
    expect(page.locator(".graph-map")).to_be_visible()
    page.get_by_role("button", name="Fit into the view").click()
    expect(page.locator(".graph-map")).to_be_hidden()


def test_scopes_fold_and_unfold_and_arrow_keys_lead_from_box_to_box(start: StartVisit) -> None:
    page = start().open("/models/small/plan?open=all")
    expect(page.locator(".graph .scope")).to_have_count(3)
    page.locator(".graph .scope").nth(1).click()
    expect(page.locator(".graph .scope")).to_have_count(4)
    page.locator(".graph .scope").nth(1).focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".graph .scope").nth(2)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".graph .scope")).to_have_count(3)  # a folded scope has the id of its first operation
    expect(_box(page, 60)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#chosen h2")).to_have_text("Operation 60")
    page.get_by_role("link", name="Fold encoder/block1", exact=True).click()
    expect(_box(page, 40)).to_have_class(re.compile(r"\bscope\b"))


def test_without_script_operations_are_found_and_shown_too(start: StartVisit) -> None:
    page = start(java_script_enabled=False).open("/models/deep/plan")
    page.get_by_label("Find operations").fill("node1234")
    page.get_by_role("button", name="Find", exact=True).click()
    page.get_by_role("link", name="encoder/block30/mlp/node1234").click()
    expect(_box(page, 1234)).to_be_in_viewport()
    expect(page.locator("#chosen h2")).to_have_text("Operation 1234")


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_phone_has_all_of_it(start: StartVisit, colours: str) -> None:
    page = start(viewport={"width": 390, "height": 844}, color_scheme=colours).open(
        "/models/small/plan?open=all&find=node70&node=70"
    )
    assert not overflow(page)
    expect(page.locator(".graph-tools")).to_be_visible()
