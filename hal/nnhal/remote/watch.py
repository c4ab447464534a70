"""Tells a busy process from one that does not answer at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from time import monotonic
from typing import Protocol, TypeVar

import grpc

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, NnhalError
from nnhal.link import Link

T = TypeVar("T")
_IMPATIENCE_SECONDS = 0.5
"""The time that a process gets to answer if it was silent before."""


class Cancellable(Protocol):
    """A call that can be cancelled."""

    def cancel(self) -> object:
        """Cancel the call."""
        ...


class Watch:
    """Tells a busy process from one that has stopped. Safe to use from several threads.

    A process answers by opening a link, which takes none of the threads that serve calls, so that a busy process also
    answers. ``silent`` says that it did not answer when last asked.
    """

    def __init__(self, endpoint: Endpoint, client_name: str, patience: float) -> None:
        """The process may take ``patience`` seconds to answer."""
        self._endpoint = endpoint
        self._client_name = client_name
        self._patience = patience
        self.silent = False

    def answers(self) -> bool:
        """Ask the process. If it was silent the last time, it gets less time."""
        try:
            seconds = min(self._patience, _IMPATIENCE_SECONDS) if self.silent else self._patience
            Link(self._endpoint.link, self._client_name, seconds).close()
        except DeadObjectError:
            self.silent = True
        except NnhalError:  # a refusal is also an answer
            self.silent = False
        else:
            self.silent = False
        return not self.silent

    def result_of(self, call: grpc.Future[T]) -> T:
        """Wait for the result of a call while the process is watched. Raises what the call ends with.

        If the process falls silent, the call is cancelled.
        """
        while True:
            try:
                return call.result(self._patience)
            except grpc.FutureTimeoutError:
                if not self.answers():
                    call.cancel()

    @contextmanager
    def over(self, call: Cancellable) -> Iterator[None]:
        """Watch the process while a call is waited for, and cancel the call if the process falls silent."""
        ended = threading.Event()

        def look() -> None:
            while self.answers():
                if ended.wait(self._patience):
                    return
            call.cancel()

        with _reminders.after(self._patience, look):
            try:
                yield
            finally:
                ended.set()


class _Reminders:
    """Has functions called after some time, each in a thread of its own, unless what they are for has ended by then.

    One thread waits for all of them: to start one for each preparation would delay most, which end at once.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[object, tuple[float, Callable[[], object]]] = {}
        self._wakes = inf
        self._serves = False

    @contextmanager
    def after(self, seconds: float, remind: Callable[[], object]) -> Iterator[None]:
        """Call ``remind`` if the context has not ended after so many seconds."""
        key, due = object(), monotonic() + seconds
        with self._changed:
            self._due[key] = due, remind
            if not self._serves:
                threading.Thread(target=self._serve, name="reminders", daemon=True).start()
                self._serves = True
            elif due < self._wakes:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._due.pop(key, None)

    def _serve(self) -> None:
        with self._changed:
            while True:
                now = monotonic()
                for key, (_, remind) in [one for one in self._due.items() if one[1][0] <= now]:
                    try:
                        threading.Thread(target=remind, name="watch", daemon=True).start()
                    except RuntimeError:  # no memory for a thread
                        self._due[key] = now + _IMPATIENCE_SECONDS, remind
                    else:
                        del self._due[key]
                self._wakes = min((due for due, _ in self._due.values()), default=inf)
                self._changed.wait(None if self._wakes == inf else self._wakes - now)


_reminders = _Reminders()
