"""``python -m tests.screenshots``: pictures of the dashboard's pages, from a testbed that works.

Each page that docs/ show is taken in light and in dark colours. While pictures are taken, requests come over HTTP;
before that, a device was killed, so that there is something to see.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import Literal

import numpy as np
import tritonclient.http
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from tritonclient.utils import InferenceServerException

from tests.support.browsing import CHROMIUM, launch
from tests.support.showcase import DEMO, MODELS, Showcase, showcase
from tests.support.waiting import wait_until

PICTURES = Path(__file__).parents[1] / "docs/pictures/dashboard"
_WINDOWS = {"": (1440, 900)}
COLOURS: Sequence[Literal["light", "dark"]] = ("light", "dark")
_KILLED = "cpu_acc"
_PINNED, _ONTO = "digits_int8", "cpu_ref"
"""A model that is given a plan of several steps, by a pin of its second operation."""
_MORE = {"meters": "digits", "plates": "digits_int8", "stamps": "digits", "forms": "digits_int8", "labels": "digits"}
"""Further models, each with the network of one of the demo's."""
_BUSY = (*MODELS, "meters")
"""Those that requests are for; the others are idle."""
_RATE = 60.0
_WARM_SECONDS = 45.0
"""Long enough for charts with something in them."""
_SHOWN_FROM = {"trial": "Side by side", "run": "Latency"}
"""The headings from which on pages are shown that are higher than a window, by the names of their pictures."""
_SETTLE_MS = 1500
_MOST_COLOURS = 256


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.screenshots", description=__doc__)
    parser.add_argument("--out", type=Path, default=PICTURES, help="the directory for the pictures")
    parser.add_argument("--whole", action="store_true", help="whole pages, not only what a window shows")
    parser.add_argument("--width", type=int, action="append", help="other widths than 1440 pixels")
    parser.add_argument("--seconds", type=float, default=_WARM_SECONDS, help="of requests before the first picture")
    arguments = parser.parse_args()
    if CHROMIUM is None:
        print("there is no Chromium: 'make browser' says how to install it", file=sys.stderr)
        return 1
    windows = {f"-{width}": (width, 900) for width in arguments.width or ()} or _WINDOWS
    arguments.out.mkdir(parents=True, exist_ok=True)
    more = {name: (DEMO / f"{network}.onnx").read_bytes() for name, network in _MORE.items()}
    with showcase(more) as testbed, _flowing(testbed):
        _live_through(testbed, arguments.seconds)
        with sync_playwright() as playwright, launch(playwright, CHROMIUM) as browser:
            context = browser.new_context(base_url=testbed.dashboard, reduced_motion="reduce")
            for name, path in _pages(context.new_page()).items():
                page = context.new_page()
                answer = page.goto(path, wait_until="load")
                assert answer is not None and answer.ok, f"{path}: {answer}"
                page.wait_for_timeout(_SETTLE_MS)
                for suffix, (width, height) in windows.items():
                    page.set_viewport_size({"width": width, "height": height})
                    if name in _SHOWN_FROM:
                        page.get_by_role("heading", name=_SHOWN_FROM[name]).evaluate("each => each.scrollIntoView()")
                    for colours in COLOURS:
                        page.emulate_media(color_scheme=colours)
                        picture = packed(page.screenshot(full_page=arguments.whole))
                        (arguments.out / f"{name}{suffix}-{colours}.png").write_bytes(picture)
                page.close()
    sizes = [file.stat().st_size for file in arguments.out.glob("*.png")]
    print(f"{len(sizes)} pictures, {sum(sizes) >> 10} KiB, the largest {max(sizes) >> 10} KiB")
    return 0


@contextmanager
def _flowing(testbed: Showcase) -> Iterator[None]:
    """Send requests for each of the busy models in turn, some _RATE a second in all, until the context ends."""
    ended = threading.Event()
    given = tritonclient.http.InferInput("image", [1, 1, 8, 8], "FP32")
    given.set_data_from_numpy(np.zeros((1, 1, 8, 8), np.float32))

    def flow() -> None:
        with tritonclient.http.InferenceServerClient(testbed.http) as client:
            for model in cycle(_BUSY):
                if ended.wait(1 / _RATE):
                    return
                with suppress(InferenceServerException):  # while a device is started again
                    client.infer(model, [given])

    thread = threading.Thread(target=flow)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _live_through(testbed: Showcase, seconds: float) -> None:
    """Let time pass, and kill a device in the middle of it."""
    time.sleep(seconds / 2)
    killed = testbed.process(_KILLED).pid
    testbed.supervisor.kill(_KILLED)
    wait_until(lambda: testbed.runs(_KILLED, killed), f"{_KILLED} is started again", 30)
    time.sleep(seconds / 2)


def _pages(page: Page) -> dict[str, str]:
    """Return the pages of pictures that docs/ show: names of pictures, and addresses."""
    _apply_pin(page)
    return {
        "overview": "/",
        "device": "/devices/cpu_acc",
        "plan": f"/models/{_PINNED}/plan",
        "trial": f"/models/{_PINNED}/plan?pin=index:3={_ONTO}",
        "run": _recorded_run(page),
        "metrics": "/metrics?range=5m",
    }


def _apply_pin(page: Page) -> None:
    """Pin an operation, and have the model run by that plan."""
    page.goto(f"/models/{_PINNED}/plan?pin=index:1={_ONTO}")
    page.get_by_role("button", name="Apply").click()
    page.wait_for_url(re.compile("/plan$"))


def _recorded_run(page: Page) -> str:
    page.goto("/runs")
    form = page.locator("form", has=page.get_by_role("button", name="Record"))
    form.locator("select[name=model]").select_option(_PINNED)
    form.get_by_role("button").click()
    page.wait_for_url("**/recordings/*")
    page.wait_for_timeout(_SETTLE_MS)
    page.reload()
    address = page.locator("table th a").first.get_attribute("href")
    assert address is not None
    return address


def packed(picture: bytes) -> bytes:
    """Return a picture as a PNG of few colours."""
    packed = io.BytesIO()
    taken = Image.open(io.BytesIO(picture)).convert("RGB")
    taken.quantize(_MOST_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        packed, "png", optimize=True
    )
    return packed.getvalue()


if __name__ == "__main__":
    sys.exit(main())
