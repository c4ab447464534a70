"""Findings of a visit on a page that does what none may do."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page

from tests.support.browsing import overflow, visiting
from tests.support.showcase import Showcase

pytestmark = pytest.mark.browser

_FAULTS = {
    "console.error('planted')": "console: error: planted",
    "console.warn('planted')": "console: warning: planted",
    "setTimeout(() => { throw new Error('planted') })": "script: .*planted",
    "alert('planted')": "dialog: planted",
    "new Image().src = 'http://192.0.2.1/planted'": "request to http://192.0.2.1/planted",
    "document.querySelector('h1').style.color = '#eee'": "color-contrast",
    "document.body.innerHTML = '<img src=\"/static/icon.svg\">'": "image-alt",
}


@pytest.mark.parametrize("fault", _FAULTS)
def test_a_visit_fails_for_a_fault(browser: Browser, testbed: Showcase, fault: str) -> None:
    with pytest.raises(AssertionError, match=_FAULTS[fault]), visiting(browser, testbed.dashboard) as visit:
        page = visit.open("/login")
        _plant(page, fault)


def test_what_is_wider_than_the_window_is_found(browser: Browser, testbed: Showcase) -> None:
    with visiting(browser, testbed.dashboard) as visit:
        page = visit.open("/login")
        assert not overflow(page)
        page.evaluate(
            "document.querySelector('main').innerHTML = '<table><td><input size=400 aria-label=wide></table>'"
        )
        assert "<input" in overflow(page)


def _plant(page: Page, fault: str) -> None:
    page.evaluate(f"() => {{ {fault} }}")
    page.wait_for_function("() => new Promise((done) => setTimeout(() => done(true)))")
