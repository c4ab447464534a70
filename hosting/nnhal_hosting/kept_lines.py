"""The last lines that the process has logged, for operators."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

_LINES = 1000
_LONGEST = 16_384


@dataclass(frozen=True, slots=True)
class KeptLine:
    """A line that was shown."""

    number: int
    """Counts the lines of the process, from 1 on."""
    at_ns: int
    """When it was written, in nanoseconds since the epoch."""
    level: str
    text: str
    """What it says, without instant, level and process; a traceback follows on lines of its own."""
    request_id: str
    """The request that it is about; empty if it does not say."""


class KeptLines:
    """The last thousand lines of a process. Safe to use from several threads."""

    def __init__(self, most: int = _LINES) -> None:
        self._lock = threading.Lock()
        self._lines: deque[KeptLine] = deque(maxlen=most)
        self._last = 0

    def add(self, at_ns: int, level: str, text: str, request_id: str = "") -> None:
        """Keep a line; a very long text is cut."""
        if len(text) > _LONGEST:
            text = text[:_LONGEST] + "…"
        text, request_id = _encodable(text), _encodable(request_id)
        with self._lock:
            self._last += 1
            self._lines.append(KeptLine(self._last, at_ns, level, text, request_id))

    def after(self, number: int, most: int) -> tuple[list[KeptLine], int]:
        """Return the newest ``most`` lines after the one of a number, in order, and the number of the last line."""
        with self._lock:
            lines, last = list(self._lines), self._last
        found = [line for line in lines if line.number > number]
        return found[max(0, len(found) - most) :], last


def _encodable(text: str) -> str:
    """A text without halves of characters, which names of files may have and no message can carry."""
    return text.encode(errors="replace").decode()


KEPT = KeptLines()
"""The lines of this process."""
