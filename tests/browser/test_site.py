"""The pages of the documentation as a site: built with strict links, opened as files, searched without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

ROOT = Path(__file__).parents[2]
DOORS = ("NeuralNetworks.h", "TensorFlow Lite", "ONNX Runtime", "PyTorch", "Open Inference Protocol", "nnhal_client")


@pytest.mark.browser
def test_the_site_is_built_strictly_and_searched_as_files(browser: Browser, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout
    with browser.new_context() as context:
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((tmp_path / "site/index.html").as_uri())
        for door in DOORS:
            expect(page.locator("table").first).to_contain_text(door)
        page.keyboard.press("f")
        expect(page.get_by_role("textbox", name="Search")).to_be_focused()
        page.keyboard.type("rolling buffer")
        page.locator("a.md-search-result__link[href*='cascading.html']").first.click()
        expect(page.locator("h1")).to_have_text("Cascading¶")
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
