"""The dashboard under all options of ``nnhal up`` at once: every page and live part, while clients hold models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx

from nnhal_client import connect
from tests.support.html import parsed
from tests.support.showcase import DEMO, DEVICES, Showcase, showcase
from tests.support.waiting import wait_until

FAULTS = '[[fault]]\nwhat = "delay"\nname = "slow"\nms = 1\n'
_HREF = re.compile(r"""href=["'](/[^"'#]*)""")
_LIVE = re.compile(r"data-live='([^']*)'")
_MOST_KEYS = 64


@contextmanager
def used(options: list[str], front_workers: int) -> Iterator[Showcase]:
    """A testbed with a client that holds models on two devices, and with a request that was served."""
    with (
        showcase(more=options, front_workers=front_workers) as testbed,
        connect(testbed.directory / "framework") as one,
    ):
        held = [one.load(DEMO / "digits.onnx", pins={"name:*": device}) for device in ("cpu_acc", "cpu_ref")]
        for model in held:
            model.bind().run()
        url = f"http://{testbed.http}/v2/models/digits/infer"
        zeros = {"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": [0.0] * 64}
        assert httpx.post(url, json={"inputs": [zeros]}).status_code == 200
        yield testbed


def test_no_device_is_silent_and_no_page_fails(tmp_path: Path) -> None:
    faults = tmp_path / "faults.toml"
    faults.write_text(FAULTS)
    options = ["--allow-recording", "--faults", str(faults)]
    with used(options, 2) as testbed, httpx.Client(base_url=testbed.dashboard, timeout=60) as browser:

        def states() -> dict[str, str]:
            pages = {name: parsed(browser.get(f"/devices/{name}").text) for name in DEVICES}
            return {name: page.having("state")[0].text for name, page in pages.items()}

        def tell_sessions() -> bool:
            pages = [browser.get(f"/sessions?process={name}").text for name in ("cpu_acc", "cpu_ref")]
            return all("the framework" in page for page in pages)

        wait_until(tell_sessions, "the devices tell their sessions")
        assert set(states().values()) == {"up"}
        keys = visited(browser)
        assert {key.partition(".")[0] for key in keys} >= {
            "overview",
            "devices",
            "device",
            "models",
            "sessions",
            "memory",
        }
        shown = followed(browser, sorted(keys))
        assert set(shown) == keys
        assert "silent" not in shown["overview.problems"], shown["overview.problems"]


def visited(browser: httpx.Client) -> set[str]:
    """Follow every link from the first page on; return the live parts of all pages."""
    waiting, seen, keys = ["/"], {"/"}, set[str]()
    while waiting:
        path = waiting.pop()
        answer = browser.get(path, headers={"accept": "text/html"}, follow_redirects=True)
        assert answer.status_code in (200, 404), (path, answer.status_code, answer.text)
        if "text/html" not in answer.headers["content-type"]:
            continue
        keys |= {key.replace("&amp;", "&") for key in _LIVE.findall(answer.text)}
        for found in _HREF.findall(answer.text):
            link = urljoin(path, found.replace("&amp;", "&"))
            if urlsplit(link).path not in {urlsplit(each).path for each in seen}:
                seen.add(link)
                waiting.append(link)
    return keys


def followed(browser: httpx.Client, keys: list[str]) -> dict[str, str]:
    """Return what the stream sends of each live part."""
    shown: dict[str, str] = {}
    for first in range(0, len(keys), _MOST_KEYS):
        some = keys[first : first + _MOST_KEYS]
        with browser.stream("GET", "/live", params=[("f", key) for key in some]) as stream:
            for line in stream.iter_lines():
                if line.startswith("data:"):
                    part = json.loads(line.removeprefix("data:"))
                    shown[part["key"]] = part["html"]
                if set(some) <= set(shown) or line.startswith(": still here"):
                    break
    return shown
