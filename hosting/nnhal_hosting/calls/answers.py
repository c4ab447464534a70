"""Answers that their clients do not take."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

_MOST_UNTAKEN = 1024
"""Answers of one server that may wait for their clients at a time."""
_PATIENCE_SECONDS = 2.0
"""How long an answer may wait however many do. Of many calls that come at once, all are answered before any is sent."""


class _Answer(NamedTuple):
    size: int
    end: Callable[[], object]
    given: float
    """When it was given, in seconds of the clock."""


class UntakenAnswers:
    """Bounds the answers that gRPC keeps, with their calls, as long as a client does not take them.

    Beyond a limit it ends the oldest: a client that takes its answers has them before they are old. Safe to use from
    several threads.
    """

    def __init__(
        self,
        limit: int = _MOST_UNTAKEN,
        limit_bytes: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``limit_bytes`` are those that all have together; None for any number."""
        self._clock = clock
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: dict[int, _Answer] = {}
        """In the order in which they were given."""
        self._bytes = 0

    def add(self, size: int, end: Callable[[], object]) -> Callable[..., None]:
        """Note an answer of ``size`` bytes that is about to be sent. Call what is returned, with whatever arguments,
        when its call has ended.

        ``end`` ends the call. It is called in any thread that adds another answer.
        """
        number = next(self._numbers)
        with self._lock:
            self._waiting[number] = _Answer(size, end, self._clock())
            self._bytes += size
            surplus = self._take_surplus() if len(self._waiting) > 1 else ()
        for answer in surplus:
            answer.end()
        return partial(self._remove, number)

    def _take_surplus(self) -> list[_Answer]:
        """Take the oldest answers out that exceed a limit, but never the newest."""
        surplus: list[_Answer] = []
        while len(self._waiting) > 1:
            number, oldest = next(iter(self._waiting.items()))
            are_many = len(self._waiting) > self._limit and self._clock() - oldest.given >= _PATIENCE_SECONDS
            if not are_many and (self._limit_bytes is None or self._bytes <= self._limit_bytes):
                break
            surplus.append(oldest)
            del self._waiting[number]
            self._bytes -= oldest.size
        return surplus

    def _remove(self, number: int, *_: object) -> None:
        with self._lock:
            answer = self._waiting.pop(number, None)
            if answer is not None:
                self._bytes -= answer.size
