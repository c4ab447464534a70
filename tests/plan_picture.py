"""``python -m tests.plan_picture``: pictures of a plan for docs/partitioning.md, from the page of ``nnhal explain``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import FloatRect, sync_playwright

from tests.screenshots import COLOURS, packed
from tests.support.browsing import CHROMIUM, launch
from tests.support.command import nnhal

ROOT = Path(__file__).parents[1]
_EXPLAIN = ("examples/mobilenet/model.tflite", "--devices", "ethos_n,gpu_acc,cpu_acc", "--pin", "name:*head/*=gpu_acc")
_WIDTH, _HEIGHT = 1100, 1200
_MARGIN = 12


def main() -> int:
    if CHROMIUM is None:
        print("there is no Chromium: 'make browser' says how to install it", file=sys.stderr)
        return 1
    with (
        tempfile.TemporaryDirectory() as folder,
        sync_playwright() as playwright,
        launch(playwright, CHROMIUM) as browser,
    ):
        page_file = Path(folder) / "plan.html"
        model, *options = _EXPLAIN
        nnhal("explain", str(ROOT / model), *options, "--runs", "0", "--html", str(page_file)).check_returncode()
        page = browser.new_page(viewport={"width": _WIDTH, "height": _HEIGHT}, device_scale_factor=1.5)
        page.goto(page_file.as_uri())
        drawn = page.locator("svg.drawing").first.bounding_box()
        assert drawn is not None
        area = FloatRect(x=drawn["x"], y=drawn["y"] - _MARGIN, width=drawn["width"], height=drawn["height"] + _MARGIN)
        for colours in COLOURS:
            page.emulate_media(color_scheme=colours)
            picture = ROOT / f"docs/pictures/plan-{colours}.png"
            picture.write_bytes(packed(page.screenshot(clip=area)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
