"""Long work beside threads that serve: it lets go of the interpreter's lock now and then."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import TypeVar

_PAUSE_SECONDS = 0.0002
"""Long enough for a thread that waits for the lock to wake up and take it."""
_SWITCH_SECONDS = 0.0005
T = TypeVar("T")


def share_interpreter() -> None:
    """Have a thread that computes give way after half a millisecond, not after CPython's 5, to one that waits.

    An event loop waits for the interpreter's lock after each system call, several times for one request.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)


def set_start_apart() -> None:
    """Spare the collector of reference cycles what a process has made before it serves: modules, classes, tables.

    They stay as long as the process. Loading a model makes so many objects that the collector would look at all of them
    several times.
    """
    gc.freeze()


def with_pauses(items: Iterable[T], every: int = 1) -> Iterator[T]:
    """Yield the items, with a pause after each ``every`` of them.

    What is computed for an operator between two pauses should take well below a millisecond: requests wait for it.
    """
    for number, item in enumerate(items, 1):
        yield item
        if number % every == 0:
            time.sleep(_PAUSE_SECONDS)


class _Turns:
    """A lock that threads get in the order in which they have asked for it. Use it as a context."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._waiting: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            mine = threading.Lock()
            mine.acquire()
            self._waiting.append(mine)
        mine.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_taken = False


_turns = _Turns()


def in_turns(items: Iterable[T]) -> Iterator[T]:
    """Yield the items, with a pause after each. No other thread computes such items while one is computed.

    For long work that keeps the interpreter's lock: however many threads do it, a thread that serves competes with only
    one of them. An item should take no more than a millisecond.
    """
    remaining = iter(items)
    while True:
        with _turns:
            found = list(islice(remaining, 1))
        if not found:
            return
        yield found[0]
        time.sleep(_PAUSE_SECONDS)
