"""The device's command queue: in order, shared by all sessions, and flushed by a sync only."""

from __future__ import annotations

import threading
from collections.abc import Callable

from nnhal_devices.driver import Control, Outcome

_LOOK_SECONDS = 0.05
Work = Callable[[], Outcome]


class InOrderQueue:
    """Nothing that is enqueued begins before the next sync, from any session. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._syncing = threading.Lock()
        self._enqueued: list[QueuedWork] = []

    def __len__(self) -> int:
        return len(self._enqueued)

    def enqueue(self, work: Work) -> QueuedWork:
        """Append work. The thread that syncs next calls it once and drops it."""
        queued = QueuedWork(self, work)
        with self._lock:
            self._enqueued.append(queued)
        return queued

    def sync(self, control: Control | None = None) -> None:
        """Do what was enqueued before this call. What is enqueued in the meantime is left to the next sync.

        Raises HalError if ``control`` does while another thread syncs.
        """
        while not self._syncing.acquire(timeout=_LOOK_SECONDS):
            if control is not None:
                control.check()
        try:
            with self._lock:
                enqueued, self._enqueued = self._enqueued, []
            for queued in enqueued:
                queued.do()
        finally:
            self._syncing.release()


class QueuedWork:
    """Enqueued work, and its outcome or error."""

    def __init__(self, queue: InOrderQueue, work: Work) -> None:
        self._queue = queue
        self._work: Work | None = work
        self._outcome: Outcome | None = None
        self._error: Exception | None = None

    def do(self) -> None:
        """Do the work, for the queue. An error is kept as this work's own result, and the next work goes on."""
        work, self._work = self._work, None
        if work is not None:
            try:
                self._outcome = work()
            except Exception as error:
                self._error = error

    def result(self) -> Outcome:
        """Return the outcome or raise the error, once. Sync first if no sync has done the work yet."""
        if self._outcome is None and self._error is None:
            self._queue.sync()
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame and this object: a reference cycle
        if self._outcome is None:
            raise RuntimeError("a sync left work undone")
        return self._outcome
