"""The log lines of all processes, gathered while somebody reads them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from nnhal.errors import NnhalError
from nnhal.threads import LastingThread
from nnhal.v1 import admin_pb2
from nnhal_pages.operating.contacts import Contacts
from nnhal_pages.operating.resources.events import MOST_LINES, new_lines
from nnhal_pages.operating.snapshot import Snapshot

_EVERY_SECONDS = 1.0
_READ_SECONDS = 5.0
"""The time that after the last reading lines are still gathered."""


class Logbook:
    """Lines of the supervisor's tail, or of each process if nnhal supervises nothing. Safe to use from several threads.

    Lines are asked for in a thread of its own, so that a process that does not answer delays nobody.
    """

    def __init__(self, contacts: Contacts, snapshot: Callable[[], Snapshot]) -> None:
        self._contacts = contacts
        self._snapshot = snapshot
        self._lock = threading.Lock()
        self._lines: deque[admin_pb2.LogLine] = deque(maxlen=MOST_LINES)
        self._last: dict[str, dict[str, int]] = {}
        self._read = 0.0
        self._thread: LastingThread | None = None
        self._first = threading.Event()

    def lines(self) -> Sequence[admin_pb2.LogLine]:
        """Return what has been gathered, the oldest first. Does not ask anybody."""
        self._look()
        with self._lock:
            return list(self._lines)

    def read(self) -> Sequence[admin_pb2.LogLine]:
        """Return the lines; if nobody has read for a while, wait a moment until they are gathered."""
        self._look()
        self._first.wait(_EVERY_SECONDS)
        return self.lines()

    def _look(self) -> None:
        with self._lock:
            self._read = time.monotonic()
            if self._thread is None:
                self._first.clear()
                self._thread = LastingThread(self._gather, "logbook").started()

    def _gather(self) -> None:
        pause = threading.Event()
        while True:
            try:
                self._ask()
            finally:
                self._first.set()
            pause.wait(_EVERY_SECONDS)
            with self._lock:
                if time.monotonic() - self._read > _READ_SECONDS:
                    self._thread = None
                    return

    def _ask(self) -> None:
        snapshot = self._snapshot()
        if snapshot.supervisor is not None:
            self._add(snapshot, f"/{snapshot.supervisor.pid}", "")
            return
        for process in snapshot.processes:
            if process.answers and process.process is not None:
                self._add(snapshot, f"{process.name}/{process.process.pid}", process.name)

    def _add(self, snapshot: Snapshot, source: str, name: str) -> None:
        """Add the lines of one process, or of the supervisor's tail. A ``source`` begins anew if it is another one."""
        with suppress(NnhalError, LookupError):
            lines = [*new_lines(self._contacts, snapshot, self._last.setdefault(source, {}), name)]
            with self._lock:
                self._lines = deque(sorted([*self._lines, *lines], key=lambda line: line.at_ns), maxlen=MOST_LINES)
