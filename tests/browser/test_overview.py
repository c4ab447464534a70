"""Stories of operators: from the overview of a testbed with a slow device to the answer, in a few clicks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.browsing import Visit, stand_still
from tests.support.showcase import Showcase, showcase

pytestmark = pytest.mark.browser

SLOW = '[[fault]]\nwhat = "delay"\nms = 200\ndevice = "cpu_acc"\n'
PATIENCE_MS = 60_000
"""For what needs some rounds of questions, or a page of a framework that is busy."""


@pytest.fixture(scope="module")
def testbed(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Showcase]:
    """Start a testbed with a device that is slow by 200 ms, and have it run a model all the time."""
    faults: Path = tmp_path_factory.mktemp("faults") / "faults.toml"
    faults.write_text(SLOW)
    stopped = threading.Event()
    with showcase(more=("--faults", str(faults))) as started:
        asking = threading.Thread(target=_ask, args=(started, stopped))
        asking.start()
        try:
            yield started
        finally:
            stopped.set()
            asking.join()


def _ask(testbed: Showcase, stopped: threading.Event) -> None:
    tensor = {"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": [0.0] * 64}
    with httpx.Client(base_url=f"http://{testbed.http}", timeout=60) as client:
        while not stopped.is_set():
            client.post("/v2/models/digits/infer", json={"inputs": [tensor]}).raise_for_status()


def answer(page: Page, to: str) -> Locator:
    return (
        page.locator(".glance > div").filter(has=page.get_by_role("term").filter(has_text=to)).get_by_role("definition")
    )


def test_what_is_slow(visit: Visit) -> None:
    page = visit.open("/")
    slowest = answer(page, "Slowest")
    expect(slowest).to_contain_text("digits 99 % within", timeout=PATIENCE_MS)
    slowest.get_by_role("link", name="cpu_acc").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("cpu_acc")
    page.get_by_role("link", name="Overview").click()
    band = page.locator(".picture.wide path.pace-3").first
    expect(band).to_be_visible(timeout=PATIENCE_MS)
    block = page.locator(".picture.wide .flow-node").filter(has_text="cpu_acc")
    expect(block).to_contain_text("% busy")
    stand_still(page)
    block.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("cpu_acc")


def test_who_refused(visit: Visit) -> None:
    page = visit.open("/")
    refused = answer(page, "Refused")
    expect(refused).to_contain_text("ethos_u refused", timeout=PATIENCE_MS)
    expect(refused).to_contain_text("float32")
    refused.get_by_role("link", name="ethos_u").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Plan of digits")
    expect(page.get_by_text("ethos_u refused").first).to_be_visible()


def test_the_picture_in_words_stays_open_while_it_changes(visit: Visit) -> None:
    page = visit.open("/")
    page.get_by_text("The picture as a table").click()
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="127.0.0.1", exact=True))
    expect(row).to_contain_text("digits", timeout=PATIENCE_MS)
    expect(row).to_contain_text("/s")
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.locator(".picture.narrow")).to_be_visible()
    expect(page.locator(".picture.wide")).to_be_hidden()
