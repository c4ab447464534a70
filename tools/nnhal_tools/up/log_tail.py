"""The last lines that the processes of a testbed have written to standard error."""

from __future__ import annotations

import threading
import time
from collections import deque

from nnhal.v1 import admin_pb2
from nnhal.v1 import supervisor_pb2 as wire
from nnhal_tools.up.log_parsing import parse_line

_LINES_KEPT = 5000
_LONGEST = 4096
"""Characters of a line that are kept."""
_MOST_RETURNED = 200
"""Lines that are returned to those who do not say how many."""


class LogTail:
    """Keeps the last lines of all processes, dead ones too. Safe to use from several threads."""

    def __init__(self, kept: int = _LINES_KEPT) -> None:
        self._lock = threading.Lock()
        self._lines: deque[admin_pb2.LogLine] = deque(maxlen=kept)
        self._last = 0

    def add(self, process: str, line: str) -> None:
        """Add a line of a process. What is not a line of a log is kept as text; a very long line is cut."""
        parsed = parse_line(line)
        text = parsed.text if len(parsed.text) <= _LONGEST else parsed.text[:_LONGEST] + "…"
        with self._lock:
            self._last += 1
            self._lines.append(
                admin_pb2.LogLine(
                    number=self._last,
                    at_ns=time.time_ns() if parsed.at_ns is None else parsed.at_ns,
                    process=process,
                    level=parsed.level,
                    text=text,
                    request_id=parsed.request_id[:_LONGEST],
                )
            )

    def tail(self, process: str, after: int, most: int) -> wire.TailLogsResponse:
        """Return the newest lines of a process, or of all, after the line of a number; at most 200 if ``most`` is 0."""
        with self._lock:
            lines = [line for line in self._lines if line.number > after and process in ("", line.process)]
            last = self._last
        return wire.TailLogsResponse(lines=lines[-(most or _MOST_RETURNED) :], last=last)
