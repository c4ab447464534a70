"""Looking at pages with a real browser, which minds what no page may do."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Playwright, Request

CHROMIUM = shutil.which("chromium")
"""The browser; None if it is not installed."""
WIDTHS = (1440, 1024, 390)
PATIENCE_MS = 60_000
"""How long a page may take to show what a test expects of it: a process may have to start again on a busy machine."""
_AXE = Axe()
_AXE_OPTIONS = {
    "resultTypes": ["violations"],
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]},
}
_WITHOUT = ("--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync")
_ONLY_THIS_HOST = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"


def launch(playwright: Playwright, chromium: str) -> Browser:
    """Start Chromium, which reaches no other host. It has no sandbox, since containers run it as root."""
    return playwright.chromium.launch(
        executable_path=chromium,
        chromium_sandbox=False,
        args=[*_WITHOUT, "--no-first-run", "--disable-gpu", _ONLY_THIS_HOST],
    )


@dataclass(slots=True)
class Visit:
    """A browser that has kept nothing, and what went wrong on the pages that it has shown."""

    address: str
    """The dashboard's."""
    context: BrowserContext
    has_script: bool
    complaints: list[str] = field(default_factory=list)
    """Requests to other hosts, dialogs, and what the console says."""
    expected: list[str] = field(default_factory=list)
    """Patterns of complaints that a test brings about on purpose."""

    def open(self, path: str, status: int = 200) -> Page:
        return self.go(self.context.new_page(), path, status)

    def go(self, page: Page, path: str, status: int = 200) -> Page:
        """Show another page in a tab; the one that it leaves is checked."""
        self.check(page)
        if status >= 400:
            self.expected.append(f"status of {status} ")
        answer = page.goto(self.address + path, wait_until="load")
        assert answer is not None
        assert answer.status == status, f"{path}: {answer.status} {answer.text()[:200]}"
        return page

    def check(self, page: Page) -> None:
        """Fail if axe finds something that keeps people out of a page."""
        if not self.has_script or not page.url.startswith("http"):
            return
        found = _AXE.run(page, options=_AXE_OPTIONS)
        assert not found.violations_count, f"{page.url}: {found.generate_report()}"

    def end(self) -> None:
        """Check the pages that are open, and fail if any page did what none may do."""
        for page in self.context.pages:
            self.check(page)
        unexpected = [text for text in self.complaints if not any(re.search(known, text) for known in self.expected)]
        assert not unexpected, "\n".join(unexpected)


@contextmanager
def visiting(browser: Browser, address: str, **options: Any) -> Iterator[Visit]:
    """Visit a dashboard. ``options`` are those of ``Browser.new_context``, such as ``color_scheme``."""
    options = {"viewport": {"width": WIDTHS[0], "height": 900}, "reduced_motion": "reduce"} | options
    context = browser.new_context(**options)
    visit = Visit(address, context, options.get("java_script_enabled", True))

    def requested(request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and f"{parts.scheme}://{parts.netloc}" != address:
            visit.complaints.append(f"request to {request.url}")

    def written(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            visit.complaints.append(f"console: {message.type}: {message.text} ({message.location.get('url')})")

    def asked(dialog: Dialog) -> None:
        visit.complaints.append(f"dialog: {dialog.message}")
        dialog.accept()

    context.on("request", requested)
    context.on("console", written)
    context.on("dialog", asked)
    context.on("weberror", lambda error: visit.complaints.append(f"script: {error.error}"))
    context.set_default_timeout(PATIENCE_MS)
    try:
        yield visit
        visit.end()
    finally:
        context.close()


def stand_still(page: Page) -> None:
    """Have the live parts of a page stand still from now on: nothing is replaced while something is done with it."""
    page.evaluate("for (const each of document.querySelectorAll('[data-live]')) each.replaceWith(each.cloneNode(true))")


def overflow(page: Page) -> str:
    """Say what makes a page wider than its window; empty if nothing does."""
    said: str = page.evaluate(
        """() => {
            const root = document.scrollingElement, room = document.documentElement.clientWidth;
            if (root.scrollWidth <= room) return "";
            const wide = [...document.querySelectorAll("body *")].filter((each) =>
                each.getBoundingClientRect().right > room + 1 && !each.parentElement.closest(".scroll, .rooms"));
            const shown = wide.slice(0, 5).map((each) => each.outerHTML.slice(0, 120));
            return `${root.scrollWidth} px in ${room} px: ${shown.join(" ")}`;
        }"""
    )
    return said
