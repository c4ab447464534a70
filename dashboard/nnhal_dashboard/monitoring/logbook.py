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
from nnhal_dashboard.monitoring.contacts import Contacts
from nnhal_pages.operating.snapshot import Snapshot

_KEPT = 5000
_EVERY_SECONDS = 1.0
_READ_SECONDS = 5.0
"""The time that after the last reading lines are still gathered."""
_MOST = 2000
"""Lines that are asked for at a time."""


class Logbook:
    """Lines of the supervisor's tail, or of each process if nnhal supervises nothing. Safe to use from several threads.

    Lines are asked for in a thread of its own, so that a process that does not answer delays nobody.
    """

    def __init__(self, contacts: Contacts, snapshot: Callable[[], Snapshot]) -> None:
        self._contacts = contacts
        self._snapshot = snapshot
        self._lock = threading.Lock()
        self._lines: deque[admin_pb2.LogLine] = deque(maxlen=_KEPT)
        self._last: dict[str, int] = {}
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
            with suppress(NnhalError):
                page = self._contacts.supervisor().logs("", self._since("", snapshot.supervisor.pid), _MOST)
                self._add(f"/{snapshot.supervisor.pid}", page.lines, page.last)
            return
        for process in snapshot.processes:
            if process.answers and process.process is not None:
                key, pid = process.name, process.process.pid
                with suppress(NnhalError, LookupError):
                    answer = self._contacts.process(key).log_lines(self._since(key, pid), _MOST)
                    for line in answer.lines:
                        line.process = process.name
                    self._add(f"{key}/{pid}", answer.lines, answer.last)

    def _since(self, process: str, pid: int) -> int:
        return self._last.get(f"{process}/{pid}", 0)

    def _add(self, source: str, lines: Sequence[admin_pb2.LogLine], last: int) -> None:
        self._last[source] = last
        if lines:
            with self._lock:
                merged = sorted([*self._lines, *lines], key=lambda line: line.at_ns)
                self._lines = deque(merged, maxlen=_KEPT)
