"""Whether a process that keeps somebody waiting still answers at all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, NnhalError
from nnhal.link import Link

_IMPATIENCE_SECONDS = 0.5
"""What a process gets that has not answered before."""


class Cancellable(Protocol):
    """A call that can be given up."""

    def cancel(self) -> object:
        """Give it up."""
        ...


class Watch:
    """Tells a process that is busy from one that has stopped. Safe to use from several threads.

    A process answers when it opens a link: that takes no thread of those that serve calls, so that one which has its
    hands full answers as well. ``silent`` says that it did not when last asked.
    """

    def __init__(self, endpoint: Endpoint, client_name: str, patience: float) -> None:
        """``patience`` is what it may take, in seconds."""
        self._endpoint = endpoint
        self._client_name = client_name
        self._patience = patience
        self.silent = False

    def answers(self) -> bool:
        """Ask it. Once it was silent, it is given less time until it answers again."""
        try:
            seconds = min(self._patience, _IMPATIENCE_SECONDS) if self.silent else self._patience
            Link(self._endpoint.link, self._client_name, seconds).close()
        except DeadObjectError:
            self.silent = True
        except NnhalError:  # a refusal is an answer
            self.silent = False
        else:
            self.silent = False
        return not self.silent

    @contextmanager
    def over(self, call: Cancellable) -> Iterator[None]:
        """Watch the process while a call is waited for, and give the call up where it falls silent."""
        ended = threading.Event()

        def look() -> None:
            while not ended.wait(self._patience):
                if not self.answers():
                    call.cancel()
                    return

        threading.Thread(target=look, name="watch", daemon=True).start()
        try:
            yield
        finally:
            ended.set()
