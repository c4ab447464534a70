"""A browser, a testbed for it to look at, and visits that check what every page promises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.support.browsing import CHROMIUM, PATIENCE_MS, Visit, launch, visiting
from tests.support.showcase import Showcase, showcase

expect.set_options(timeout=PATIENCE_MS)


class StartVisit(Protocol):
    """Starts a visit; ``options`` are those of ``Browser.new_context``."""

    def __call__(self, **options: Any) -> Visit: ...


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: 'make browser' says how to install it")
    with sync_playwright() as playwright, launch(playwright, CHROMIUM) as started:
        yield started


@pytest.fixture(scope="module")
def testbed(browser: Browser) -> Iterator[Showcase]:
    with showcase() as started:
        yield started


@pytest.fixture
def start_visit(browser: Browser, testbed: Showcase) -> Iterator[StartVisit]:
    with ExitStack() as visits:

        def start(**options: Any) -> Visit:
            entered: AbstractContextManager[Visit] = visiting(browser, testbed.dashboard, **options)
            return visits.enter_context(entered)

        yield start


@pytest.fixture
def visit(start_visit: StartVisit) -> Visit:
    """Start a visit of the dashboard in a wide window, with light colours."""
    return start_visit()
