"""Tells a busy process from one that does not answer at all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

import grpc

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, NnhalError
from nnhal.link import Link
from nnhal.remote.alarms import ALARMS

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
        except OSError:  # this process has no descriptor left to ask with: nothing is known of the other one
            return True
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
            while not ended.is_set():
                if not self.answers():
                    call.cancel()
                    return
                ended.wait(self._patience)

        with ALARMS.set(self._patience, look):
            try:
                yield
            finally:
                ended.set()
