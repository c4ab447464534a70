"""Open pages follow what happens, without being loaded again."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import tritonclient.http
from playwright.sync_api import Page, expect

from tests.support.browsing import PATIENCE_MS, Visit
from tests.support.showcase import Showcase
from tests.support.tritonclients import Triton
from tests.support.waiting import stop, wait_until

pytestmark = pytest.mark.browser

_TABS = 8
"""More than the six connections that a browser opens to a server over HTTP/1.1."""


def test_a_killed_device_goes_red_and_comes_back_green(visit: Visit, testbed: Showcase) -> None:
    page = _live(visit.open("/devices"))
    state = page.get_by_role("row").filter(has=page.get_by_role("link", name="cpu_ref")).locator(".state")
    expect(state).to_have_text("up")
    first = testbed.process("cpu_ref")
    _mark(page)
    with _standing_still(testbed.pid):  # so that nobody starts it again before it was seen
        os.kill(first.pid, signal.SIGKILL)
        expect(state).to_have_text(re.compile("down|silent"))
        expect(state).to_have_css("color", _colour_of(page, "--copy"))
    expect(state).to_have_text("up")
    expect(state).to_have_css("color", _colour_of(page, "--free"))
    assert _is_marked(page)
    assert testbed.process("cpu_ref").pid != first.pid


def test_a_request_of_an_unmodified_client_is_counted_while_somebody_looks(visit: Visit, testbed: Showcase) -> None:
    page = _live(visit.open("/"))
    counted = (
        page.get_by_role("row").filter(has=page.get_by_role("link", name="digits", exact=True)).locator("td").nth(2)
    )
    before = int(counted.inner_text())
    _mark(page)
    for _ in range(3):
        _request(testbed)
    expect(counted).to_have_text(str(before + 3))
    assert _is_marked(page)


def test_a_part_that_changes_keeps_the_focus(visit: Visit, testbed: Showcase) -> None:
    page = _live(visit.open("/"))
    link = page.locator("[data-live='overview.models']").get_by_role("link", name="digits", exact=True)
    link.focus()
    link.evaluate("each => { each.isTheSame = true; }")
    _spoil(page)
    _request(testbed)
    expect(page.locator("[data-spoilt]")).to_have_count(0)
    expect(link).to_be_focused()
    expect(link).to_have_js_property("isTheSame", True)


def test_a_part_waits_while_a_pointer_holds_something_of_it(visit: Visit, testbed: Showcase) -> None:
    page = _live(visit.open("/"))
    link = page.locator("[data-live='overview.models']").get_by_role("link", name="digits", exact=True)
    link.dispatch_event("pointerdown")
    _spoil(page)
    page.evaluate(
        "addEventListener('nnhal-live', (event) => { window.told ||= event.detail.key === 'overview.models'; }, true)"
    )
    _request(testbed)
    page.wait_for_function("() => window.told")
    expect(page.locator("[data-spoilt]")).to_have_count(1)
    link.dispatch_event("pointerup")
    _request(testbed)
    expect(page.locator("[data-spoilt]")).to_have_count(0)


def test_all_of_many_tabs_are_live(visit: Visit, testbed: Showcase) -> None:
    pages = [visit.open("/") for _ in range(_TABS)]
    for page in pages:
        _spoil(_live(page))
    _request(testbed)
    for page in pages:
        expect(page.locator("[data-spoilt]")).to_have_count(0)


def test_pages_go_on_when_the_dashboard_was_killed_and_started_again(visit: Visit, testbed: Showcase) -> None:
    visit.expected.append("ERR_|Failed to load resource|network error")
    page = _live(visit.open("/"))
    _mark(page)
    first = testbed.process("dashboard").pid
    os.kill(first, signal.SIGKILL)
    expect(page.locator("#liveness")).to_contain_text("not live")
    wait_until(lambda: testbed.runs("dashboard", other_than=first), "the dashboard serves again", PATIENCE_MS / 1000)
    expect(page.locator("#liveness")).to_have_text("live")
    _spoil(page)
    _request(testbed)
    expect(page.locator("[data-spoilt]")).to_have_count(0)
    assert _is_marked(page)


def test_pages_go_on_when_the_dashboard_stood_still(visit: Visit, testbed: Showcase) -> None:
    page = _live(visit.open("/"))
    _mark(page)
    with _standing_still(testbed.process("dashboard").pid):
        _spoil(page)
        _request(testbed)
    expect(page.locator("[data-spoilt]")).to_have_count(0)
    expect(page.locator("#liveness")).to_have_text("live")
    assert _is_marked(page)


def _live(page: Page) -> Page:
    expect(page.locator("#liveness")).to_have_text("live")
    return page


def _mark(page: Page) -> None:
    page.evaluate("window.marked = true")


def _is_marked(page: Page) -> bool:
    return bool(page.evaluate("window.marked === true"))


def _spoil(page: Page) -> None:
    """Mark what the next change of the table of models replaces."""
    page.evaluate("document.querySelector('[data-live=\"overview.models\"]').firstElementChild.dataset.spoilt = 'yes'")


def _request(testbed: Showcase) -> None:
    with Triton("http", tritonclient.http, testbed.http) as triton:
        triton.infer("digits", {"image": np.zeros((1, 1, 8, 8), np.float32)})


def _colour_of(page: Page, name: str) -> str:
    script = """(name) => {
        const probe = document.body.appendChild(document.createElement("i"));
        probe.style.color = `var(${name})`;
        const colour = getComputedStyle(probe).color;
        probe.remove();
        return colour;
    }"""
    return str(page.evaluate(script, name))


@contextmanager
def _standing_still(pid: int) -> Iterator[None]:
    stop(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
