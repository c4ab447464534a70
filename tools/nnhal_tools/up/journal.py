"""Journal of the processes of a testbed."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from nnhal.admin import EVENTS_KEPT
from nnhal.v1 import supervisor_pb2 as wire


class ProcessJournal:
    """Keeps the last events, and tells each as a line. Safe to use from several threads."""

    def __init__(self, print_line: Callable[[str], None]) -> None:
        self._print_line = print_line
        self._lock = threading.Lock()
        self._events: deque[wire.ProcessEvent] = deque(maxlen=EVENTS_KEPT)
        self._last = 0

    def add(self, subject: str, kind: str, text: str) -> None:
        """Add an event of a kind that ``ProcessEvent.kind`` names."""
        self.keep(wire.ProcessEvent(subject=subject, kind=kind, text=text))

    def keep(self, event: wire.ProcessEvent) -> None:
        """Add an event that has just happened."""
        with self._lock:
            self._last += 1
            event.number, event.at_ns = self._last, time.time_ns()
            self._events.append(event)
        self.say(event.subject, f"{event.text} (by {event.who})" if event.who else event.text)

    def say(self, subject: str, text: str) -> None:
        """Tell a line that is no event."""
        self._print_line(f"{subject}: {text}")

    def after(self, number: int) -> list[wire.ProcessEvent]:
        """Return the kept events after the one of a number, in order."""
        with self._lock:
            return [event for event in self._events if event.number > number]
