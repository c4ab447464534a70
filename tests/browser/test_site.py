"""The pages of the documentation as a site: built with strict links, opened as files, searched without a network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

ROOT = Path(__file__).parents[2]
DOORS = {"I have a model": "Quickstart", "I write a driver": "Write a device", "I run it for others": "Serve"}


@pytest.mark.browser
def test_the_site_is_built_strictly_and_searched_as_files(browser: Browser, tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-c", str(ROOT / "docs/site"), str(ROOT), str(site)]
    built = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert built.returncode == 0, built.stdout
    with browser.new_context() as context:
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "index.html").as_uri())
        table = page.locator("article table").first
        for door, first in DOORS.items():
            expect(table).to_contain_text(door)
            expect(table.get_by_role("link", name=first, exact=True)).to_have_attribute("href", file_of(first))
        search = page.locator("input[name=q]").first
        search.fill("rolling buffer")
        search.press("Enter")
        page.locator("#search-results a[href*='cascading.html']").first.click()
        expect(page.locator("h1")).to_contain_text("ethos_u")
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def file_of(title: str) -> str:
    """Return the file of a page by its title."""
    return f"{title.lower().replace(' ', '_')}.html"
