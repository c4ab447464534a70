"""Long work beside threads that serve: it lets go of the interpreter's lock now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
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


def politely(items: Iterable[T], every: int = 1) -> Iterator[T]:
    """Yield the items, with a pause after each ``every`` of them.

    What is computed for an operator between two pauses should take well below a millisecond: requests wait for it.
    """
    for number, item in enumerate(items, 1):
        yield item
        if number % every == 0:
            time.sleep(_PAUSE_SECONDS)
