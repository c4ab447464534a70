"""Tells a busy process from one that does not answer at all, or that answers and makes no progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar

import grpc

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, NnhalError, TransportError
from nnhal.link import Link
from nnhal.remote.alarms import ALARMS

T = TypeVar("T")
_IMPATIENCE_SECONDS = 0.5
"""The time that a process gets to answer if it was silent before."""
_TICK_SECONDS = 1.0
_IDLE_SHARE = 0.1
"""A process makes progress that runs, or waits for a processor, for more than this share of the time."""


class Cancellable(Protocol):
    """A call that can be cancelled."""

    def cancel(self) -> object: ...


class Watch:
    """Tells a busy process from one that has stopped. Safe to use from several threads.

    A process answers by opening a link, which takes none of the threads that serve calls, so that a busy process also
    answers. ``silent`` says that it did not answer when last asked.
    """

    def __init__(self, endpoint: Endpoint, client_name: str, patience: float, stall_seconds: float = 0.0) -> None:
        """The process may take ``patience`` seconds to answer, and make no progress with a call for ``stall_seconds``;
        0 for ever.
        """
        self._endpoint = endpoint
        self._client_name = client_name
        self._patience = patience
        self.stall_seconds = stall_seconds
        self.pid = 0
        """The id of the process; 0 if that is unknown, and with it what progress it makes."""
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

    def result_of(self, call: grpc.Future[T], may_stall: bool) -> T:
        """Wait for the result of a call while the process is watched. Raises what the call ends with.

        If the process falls silent, the call is cancelled. Raises StalledError if it makes no progress, unless it
        ``may_stall``.
        """
        progress = CallProgress(0 if may_stall else self.pid, self.stall_seconds)
        while True:
            try:
                return call.result(min(self._patience, _TICK_SECONDS))
            except grpc.FutureTimeoutError:
                if progress.asks_for(self._patience) and not self.answers():
                    call.cancel()
                if progress.has_stalled():
                    call.cancel()
                    raise self._stalled() from None

    def _stalled(self) -> StalledError:
        return StalledError(f"it has made no progress for {self.stall_seconds:g} s with what it was asked")

    @contextmanager
    def over(self, call: Cancellable) -> Iterator[None]:
        """Watch the process while a call is waited for, and cancel the call if the process falls silent.

        Raises StalledError at the end if the call was cancelled since the process made no progress.
        """
        ended, progress = threading.Event(), CallProgress(self.pid, self.stall_seconds)

        def look() -> None:
            while not ended.is_set():
                if (progress.asks_for(self._patience) and not self.answers()) or progress.has_stalled():
                    call.cancel()
                    return
                ended.wait(min(self._patience, _TICK_SECONDS))

        with ALARMS.set(min(self._patience, _TICK_SECONDS), look):
            try:
                yield
            except grpc.RpcError:
                if progress.is_over:
                    raise self._stalled() from None
                raise
            finally:
                ended.set()


class StalledError(TransportError):
    """A process answers, and makes no progress with a call."""


class CallProgress:
    """The processor time that a process asks for during a call, by looks at it.

    What most calls take is less than a tick, and they do without a look: it reads some files for each thread.
    """

    def __init__(self, pid: int, stall_seconds: float) -> None:
        """``pid`` is 0 if that is unknown, ``stall_seconds`` 0 if it may do nothing for ever."""
        self._pid, self._stall_seconds = pid if stall_seconds else 0, stall_seconds
        self._asked = self._looked = time.monotonic()
        self._wanted: float | None = None
        self._idle = 0.0
        self.is_over = False
        """True if it has stalled."""

    def asks_for(self, patience: float) -> bool:
        """Return whether it is time to ask the process whether it answers: each ``patience`` seconds."""
        is_due = time.monotonic() - self._asked >= patience
        if is_due:
            self._asked = time.monotonic()
        return is_due

    def has_stalled(self) -> bool:
        """Look, and return whether the process has done nothing for so long, at least since the first look.

        False if nobody can tell.
        """
        if not self._pid:
            return False
        now, wanted, before = time.monotonic(), wanted_seconds(self._pid), self._wanted
        if wanted is None or before is None or wanted - before > _IDLE_SHARE * (now - self._looked):
            self._idle = 0.0
        else:
            self._idle += min(now - self._looked, 2 * _TICK_SECONDS)  # more if this process itself was late
        self._looked, self._wanted = now, wanted
        self.is_over = self._idle >= self._stall_seconds
        return self.is_over


def wanted_seconds(pid: int) -> float | None:
    """Return how long a process and those that it has started have run, or waited for a processor; None if unknown."""
    total, pids = 0.0, [pid]
    while pids:
        tasks = Path(f"/proc/{pids.pop()}/task")
        try:
            threads = list(tasks.iterdir())
        except OSError:
            continue
        for thread in threads:
            with suppress(OSError, ValueError):  # it has ended
                ran, waited, _ = (thread / "schedstat").read_text().split()
                total += (int(ran) + int(waited)) / 1e9
                pids += map(int, (thread / "children").read_text().split())
    return total or None
