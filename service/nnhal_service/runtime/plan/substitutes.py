"""Substitutes: plans without one device of a model's plan, which are prepared before that device dies."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from nnhal.threads import LastingThread
from nnhal_hosting.logs import get_logger

_LOOK_SECONDS = 2.0
"""Between two looks at all models: devices come and go, and memory becomes free."""
_log = get_logger(__name__)


class Insured(Protocol):
    def prepare_substitute(self) -> bool:
        """Prepare one that is wanted. Returns whether another may be wanted."""
        ...


class Substitutes:
    """The substitutes of all models: a bound on their memory, and a thread that prepares one after another.

    None is begun while a model is being loaded. Safe to use from several threads.
    """

    def __init__(self, most_bytes: int) -> None:
        """``most_bytes`` is what they may count together; 0 for no substitutes."""
        self._most_bytes = most_bytes
        self._taken = 0
        self._changed = threading.Condition()
        self._loading = 0
        self._insured: weakref.WeakSet[Insured] = weakref.WeakSet()
        self._is_new = False
        self._worker: LastingThread | None = None
        self._closed = most_bytes == 0

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Begin no substitute until a model is loaded."""
        with self._changed:
            self._loading += 1
        try:
            yield
        finally:
            with self._changed:
                self._loading -= 1
                self._changed.notify_all()

    def insure(self, insured: Insured) -> None:
        """Have substitutes prepared soon, and again as devices come and go. Returns at once."""
        with self._changed:
            if self._closed:
                return
            self._insured.add(insured)
            self._is_new = True
            self._changed.notify_all()
            if self._worker is None:
                self._worker = LastingThread(self._work, "substitutes").started()

    def take(self, count: int) -> bool:
        """Take so many bytes for a substitute. Returns False if there is no room for it."""
        with self._changed:
            has_room = self._taken + count <= self._most_bytes
            self._taken += count if has_room else 0
        return has_room

    def give_back(self, count: int) -> None:
        with self._changed:
            self._taken -= count

    def close(self) -> None:
        """Begin no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        while self._next_look():
            for waiting in [weakref.ref(insured) for insured in list(self._insured)]:
                while self._may_begin() and _prepares_one(waiting):
                    pass

    def _next_look(self) -> bool:
        """Wait until all models are to be looked at. Returns False if that ends, since there are none."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_new or self._closed, _LOOK_SECONDS)
            self._is_new = False
            if self._closed or not self._insured:
                self._worker = None
            return self._worker is not None

    def _may_begin(self) -> bool:
        """Wait until no model is being loaded."""
        with self._changed:
            self._changed.wait_for(lambda: not self._loading or self._closed)
            return not self._closed


def _prepares_one(waiting: weakref.ref[Insured]) -> bool:
    """Have a model prepare a substitute, unless it has been unloaded."""
    insured = waiting()
    try:
        return insured is not None and insured.prepare_substitute()
    except Exception:
        _log.exception("a substitute cannot be prepared")
        return False


NO_SUBSTITUTES = Substitutes(0)
