"""The streams of all browsers: each is told of the fragments that it shows when they change.

A fragment is rendered once in a second, however many browsers show it, in the collector's thread; less often if that
takes long, so that an open page costs little. Nothing of a browser is in it: the form token of each is put in place of
a mark when it is sent.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import zip_longest

import orjson
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from nnhal_hosting.logs import get_logger
from nnhal_pages.operating.snapshot import Snapshot

Render = Callable[[str], str]
"""From the key of a fragment to its HTML.

Raises LookupError if it does not exist any more, ValueError if the key makes no sense.
"""
MOST_KEYS = 64
"""Fragments that one stream may show."""
MOST_STREAMS = 256
"""Streams that may be open."""
_RENDER_SECONDS = 0.5
"""Time for one rendering of all that is shown. What is left over comes first the next time."""
_SHARE = 0.005
"""The share of a processor, for rendering one fragment over and over."""
_HEARTBEAT_SECONDS = 10.0
_log = get_logger(__name__)


def written(key: str, html: str) -> bytes:
    """Return the event that tells a page of a fragment."""
    return b"data: " + orjson.dumps({"key": key, "html": html}) + b"\n\n"


class _Stream:
    def __init__(self, keys: Sequence[str], loop: asyncio.AbstractEventLoop) -> None:
        self.keys = tuple(keys)
        self.loop = loop
        self.changed = asyncio.Event()
        self.waiting: dict[str, str] = {}
        self.sent: dict[str, int] = {}


class Streams:
    """All open streams. ``publish`` is called in the collector's thread, everything else in the event loop."""

    def __init__(self, render: Render) -> None:
        self._render = render
        self._lock = threading.Lock()
        self._streams: set[_Stream] = set()
        self._closed = False
        self._round = 0
        self._rendered: dict[str, int] = {}
        """In which round each fragment was rendered last."""
        self._due: dict[str, float] = {}
        """From when on each fragment is to be rendered again, by CLOCK_MONOTONIC."""
        self._failed: set[str] = set()
        """Fragments by name that could not be rendered, which is logged once."""

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def keys(self) -> set[str]:
        """The keys of all fragments that are shown."""
        with self._lock:
            return {key for stream in self._streams for key in stream.keys}

    def publish(self, snapshot: Snapshot) -> None:
        """Render what streams show, and wake those for which something has changed."""
        with self._lock:
            streams = list(self._streams)
        if not streams:
            return
        began = time.thread_time()
        self._round += 1
        rendered: dict[str, str] = {}
        keys = self._in_turn(streams)
        awaited = {key for stream in streams for key in stream.keys if key not in stream.sent}
        now = time.monotonic()
        for key in keys:
            if time.thread_time() - began > _RENDER_SECONDS:
                break
            if key not in awaited and now < self._due.get(key, now):
                continue
            html = self._rendering(key)
            if html is not None:
                rendered[key] = html
        self._rendered = {key: self._rendered[key] for key in keys if key in self._rendered}
        self._due = {key: self._due[key] for key in keys if key in self._due}
        for stream in streams:
            _hand_over(stream, {key: rendered[key] for key in stream.keys if key in rendered})

    def _in_turn(self, streams: Iterable[_Stream]) -> Sequence[str]:
        """Return what streams show, one of each stream before a second of any: no stream keeps others waiting."""
        own = [sorted(stream.keys, key=lambda key: self._rendered.get(key, 0)) for stream in streams]
        return list(dict.fromkeys(key for turn in zip_longest(*own) for key in turn if key is not None))

    def _rendering(self, key: str) -> str | None:
        """Render a fragment; None if that cannot be done: a page keeps its last state until it is loaded again."""
        self._rendered[key] = self._round
        name = key.partition("?")[0]
        began = time.thread_time()
        try:
            html = self._render(key)
        except (LookupError, ValueError):  # what it showed is gone, or never was: anybody may ask for anything
            return None
        except Exception:
            if name not in self._failed:
                self._failed.add(name)
                _log.exception("a live part cannot be rendered", key=key)
            return None
        self._due[key] = time.monotonic() + (time.thread_time() - began) / _SHARE
        return html

    @contextmanager
    def follow(
        self,
        keys: Sequence[str],
        personal: Callable[[str], str],
        stays: Callable[[], bool],
        event: Callable[[str, str], bytes] = written,
    ) -> Iterator[AsyncIterator[bytes]]:
        """A stream, as a context: its events are first all fragments, then those that change, until the browser no
        longer ``stays``. ``personal`` puts in what is the browser's own; ``event`` writes a key and its content.

        Raises HTTPException if there are too many streams.
        """
        stream = _Stream(keys, asyncio.get_running_loop())
        with self._lock:
            if len(self._streams) >= MOST_STREAMS:
                message = f"{len(self._streams)} browsers follow live parts, at most {MOST_STREAMS} are allowed"
                raise HTTPException(503, message)
            self._streams.add(stream)
        try:
            yield self._events(stream, personal, stays, event)
        finally:
            with self._lock:
                self._streams.discard(stream)

    async def _events(
        self,
        stream: _Stream,
        personal: Callable[[str], str],
        stays: Callable[[], bool],
        event: Callable[[str, str], bytes],
    ) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        while not self._closed and stays():
            try:
                async with asyncio.timeout(_HEARTBEAT_SECONDS):
                    await stream.changed.wait()
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if not stays():
                return
            stream.changed.clear()
            waiting, stream.waiting = stream.waiting, {}
            for key, html in waiting.items():
                yield event(key, personal(html))

    def close(self) -> None:
        """End all streams. May be called from any thread."""
        self._closed = True
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            stream.loop.call_soon_threadsafe(stream.changed.set)


class LiveResponse(StreamingResponse):
    """A stream as the response to a browser, which is refused with 503 if there are too many streams."""

    def __init__(self, stream: AbstractContextManager[AsyncIterator[bytes]]) -> None:
        super().__init__((), media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._stream as self.body_iterator:
            await super().__call__(scope, receive, send)


def _hand_over(stream: _Stream, rendered: dict[str, str]) -> None:
    """Give a stream the fragments that differ from those that it got last."""
    changed = {}
    for key, html in rendered.items():
        digest = hash(html)
        if stream.sent.get(key) != digest:
            stream.sent[key] = digest
            changed[key] = html

    def deliver() -> None:
        stream.waiting.update(changed)
        stream.changed.set()

    if changed:
        try:
            stream.loop.call_soon_threadsafe(deliver)
        except RuntimeError:  # the loop has ended, and the stream with it
            return
