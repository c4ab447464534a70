"""The device's command queue: in order, shared by all sessions, and flushed by a sync only."""

from __future__ import annotations

import threading
from collections.abc import Callable

from nnhal_devices.driver import Outcome

Work = Callable[[], Outcome]


class InOrderQueue:
    """Nothing that is enqueued begins before the next sync, whoever asks for that. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._doing = threading.Lock()
        self._entries: list[Entry] = []

    def enqueue(self, work: Work) -> Entry:
        """Append work. It is called once, by whichever thread syncs, and let go of then."""
        entry = Entry(self, work)
        with self._lock:
            self._entries.append(entry)
        return entry

    def sync(self) -> None:
        """See CommandQueue. Work that comes in meanwhile is left to the next one."""
        with self._doing:
            with self._lock:
                entries, self._entries = self._entries, []
            for entry in entries:
                entry.do()


class Entry:
    """Enqueued work, and what came of it."""

    def __init__(self, queue: InOrderQueue, work: Work) -> None:
        self._queue = queue
        self._work: Work | None = work
        self._outcome: Outcome | None = None
        self._error: Exception | None = None

    def do(self) -> None:
        """Called by the queue. Whatever the work raises is the entry's own result: the next one goes on."""
        work, self._work = self._work, None
        if work is not None:
            try:
                self._outcome = work()
            except Exception as error:
                self._error = error

    def result(self) -> Outcome:
        """See Pending. Where another thread's sync began before the work was enqueued, there is one more."""
        if self._outcome is None and self._error is None:
            self._queue.sync()
        if self._error is not None:
            raise self._error
        if self._outcome is None:
            raise RuntimeError("a sync left work undone")
        return self._outcome
