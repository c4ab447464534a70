"""Cancelling a run: no other step begins, and devices end those that have begun."""

from __future__ import annotations

import threading
from collections.abc import Callable

from nnhal.errors import NnhalError


class Cancellation:
    """Whether a request or a run has been cancelled, which cannot be undone. Safe to use from several threads."""

    def __init__(self) -> None:
        self._cancelled = False
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        """Whether ``cancel`` has been called."""
        return self._cancelled

    def cancel(self) -> None:
        """Cancel it, and call the callbacks in this thread; harmless when repeated."""
        with self._lock:
            self._cancelled = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call back, in any thread, when it is cancelled; at once if it already is."""
        with self._lock:
            if not self._cancelled:
                self._callbacks.append(callback)
                return
        callback()

    def forget(self, callback: Callable[[], None]) -> None:
        """Undo ``on_cancel``; harmless if the callback has been called."""
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)


class RunCancellation(Cancellation):
    """The cancellation of runs that follow one another, of which none is usually cancelled: one callback, and no lock.

    A callback may be called twice, and after ``forget`` if that races with ``cancel``; it must not mind.
    """

    def __init__(self) -> None:
        super().__init__()
        self._callback: Callable[[], None] | None = None

    def cancel(self) -> None:
        self._cancelled = True
        callback = self._callback
        if callback is not None:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        if self._cancelled:
            callback()

    def forget(self, callback: Callable[[], None]) -> None:
        self._callback = None


class CancelledRunError(NnhalError):
    """A run was cancelled: the steps that had begun have ended, early if possible. No device has failed."""

    def __init__(self) -> None:
        super().__init__("the run has been cancelled")


def require_wanted(cancellation: Cancellation | None) -> None:
    """Raise CancelledRunError if the run has been cancelled; call it before a step begins."""
    if cancellation is not None and cancellation.cancelled:
        raise CancelledRunError
