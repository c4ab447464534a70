"""The streams of a server that wait for their clients: for the rest of a message, or until an answer is taken."""

from __future__ import annotations

import asyncio
from typing import Protocol

_PATIENCE_SECONDS = 1.0
"""The time that a stream may wait however many do: of many that begin at once, most have what they wait for by then."""

_BURST = 4
"""How many times as many as may wait for longer may do so for a second."""


class WaitingStream(Protocol):
    """A stream that may wait for its client."""

    since: float
    """When its client has last done something for it, by the loop's clock."""

    @property
    def is_held_up(self) -> bool:
        """True if its whole connection waits for the network, which has a time of its own."""

    def give_up(self, why: str) -> None:
        """End it."""


class WaitingStreams:
    """Bounds how many streams wait, and how long each may without a byte. It belongs to the loop's thread.

    Beyond the limit the oldest end, once they have waited for a second. Beyond four times as many, new ones end.
    """

    def __init__(self, most: int, stalled_seconds: float) -> None:
        self._most = most
        self._stalled_seconds = stalled_seconds
        self._began: dict[WaitingStream, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def count(self) -> int:
        """How many wait now."""
        return len(self._began)

    def add(self, stream: WaitingStream) -> None:
        """Note that a stream waits; harmless if it does already."""
        if stream in self._began:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._began[stream] = stream.since = now
        if self._timer is None:
            self._timer = loop.call_later(self._stalled_seconds / 2, self._look, loop)
        while len(self._began) > self._most:
            oldest, began = next(iter(self._began.items()))
            if now - began < _PATIENCE_SECONDS:
                break
            self._end(oldest)
        if len(self._began) > _BURST * self._most:
            self._end(stream)

    def _end(self, stream: WaitingStream) -> None:
        self._began.pop(stream, None)
        stream.give_up(f"{self._most} others wait for their clients too, which is as many as may at a time")

    def discard(self, stream: WaitingStream) -> None:
        """Note that a stream does not wait any more; harmless if it does not."""
        self._began.pop(stream, None)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        due = loop.time() - self._stalled_seconds
        for stream in [stream for stream in self._began if stream.since <= due and not stream.is_held_up]:
            stream.give_up(f"its client has done nothing for {self._stalled_seconds:g} s")
        if self._began:
            self._timer = loop.call_later(self._stalled_seconds / 2, self._look, loop)
