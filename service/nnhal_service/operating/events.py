"""The last events of the framework, for operators who ask later."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence

from nnhal.admin import EVENTS_KEPT
from nnhal.v1 import supervisor_pb2
from nnhal_hosting.logs import get_logger

_log = get_logger(__name__)


class FrameworkEvents:
    """A ring of EVENTS_KEPT events. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._kept: deque[supervisor_pb2.ProcessEvent] = deque(maxlen=EVENTS_KEPT)

    def note(self, kind: str, subject: str, text: str) -> None:
        """Keep an event that has just happened; see ``runtime.devices.notes.Note``."""
        self.keep(supervisor_pb2.ProcessEvent(subject=subject, kind=kind, text=text))

    def keep(self, event: supervisor_pb2.ProcessEvent) -> None:
        """Keep an event that has just happened. What somebody has done is logged, too."""
        with self._lock:
            self._last += 1
            event.number, event.at_ns = self._last, time.time_ns()
            self._kept.append(event)
        if event.who:
            _log.info(event.text, subject=event.subject, who=event.who, before=event.before)

    def after(self, number: int) -> Sequence[supervisor_pb2.ProcessEvent]:
        """The events after the one of a number, the oldest first."""
        with self._lock:
            return [event for event in self._kept if event.number > number]

    def latest(self) -> dict[tuple[str, str], float]:
        """Return when each kind of event that is kept last happened to each subject, in seconds since the epoch."""
        with self._lock:
            return {(event.kind, event.subject): event.at_ns / 1e9 for event in self._kept}
