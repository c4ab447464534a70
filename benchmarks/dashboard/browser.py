"""What a browser does: asks for pages, and holds streams of their live parts open."""

from __future__ import annotations

import html
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlencode

_LIVE = re.compile(r"data-live='([^']*)'")
_DURATION = re.compile(r"dur=([0-9.]+)")
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class PageVisit:
    """One page that was asked for."""

    milliseconds: float
    """What the server took to make it, as it says itself."""
    text: str


def visit(address: str, path: str) -> PageVisit:
    """Ask for a page. Raises RuntimeError if there is none."""
    connection = HTTPConnection(address, timeout=_PATIENCE_SECONDS)
    try:
        connection.request("GET", path, headers={"accept": "text/html"})
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    took = _DURATION.search(answer.headers.get("server-timing", ""))
    if answer.status != 200 or took is None:
        raise RuntimeError(f"{path}: {answer.status} {text[:200]}")
    return PageVisit(float(took[1]), text)


@contextmanager
def open_page(address: str, path: str) -> Iterator[StreamCount]:
    """Show a page, with its live parts, until the context ends."""
    keys = sorted({html.unescape(key) for key in _LIVE.findall(visit(address, path).text)})
    connection = HTTPConnection(address, timeout=_PATIENCE_SECONDS)
    connection.request("GET", f"/live?{urlencode([('f', key) for key in keys])}")
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError(f"the stream of {path}: {answer.status} {answer.read().decode()[:200]}")
    count, link = StreamCount(), connection.sock

    def read() -> None:
        with suppress(HTTPException, OSError):
            while line := answer.readline():
                count.bytes += len(line)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield count
    finally:
        link.shutdown(socket.SHUT_RDWR)  # which ends the reader
        reader.join()
        connection.close()


@contextmanager
def chromium_on_one_core(address: str) -> Iterator[Callable[[Sequence[str]], AbstractContextManager[None]]]:
    """Start a browser on the last core, which shows pages as long as a context lasts, each in a window of its own.

    Raises RuntimeError if Chromium is not installed.
    """
    from playwright.sync_api import sync_playwright

    from tests.support.browsing import CHROMIUM, launch

    if CHROMIUM is None:
        raise RuntimeError("there is no Chromium: 'make browser' says how to install it")
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})  # which the browser's processes inherit
    with sync_playwright() as playwright, launch(playwright, CHROMIUM) as browser:
        os.sched_setaffinity(0, cores)

        @contextmanager
        def shown(paths: Sequence[str]) -> Iterator[None]:
            with browser.new_context(base_url=f"http://{address}") as context:
                for path in paths:
                    context.new_page().goto(path, wait_until="load")
                yield

        yield shown


@dataclass(slots=True)
class StreamCount:
    """What a stream has brought."""

    bytes: int = 0
