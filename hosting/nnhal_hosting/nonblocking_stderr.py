"""Writing lines to standard error without ever waiting for its reader."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
from collections.abc import Callable
from typing import TextIO

_PIECE = 4096
"""Bytes that a pipe takes without blocking once it can be written: PIPE_BUF of pipe(7)."""
_PATIENCE_MS = 200
"""A reader that is merely busy catches up meanwhile."""


class NonBlockingStderr:
    """Standard error, for logs: a line that cannot be written is dropped. Safe to use from several threads.

    A reader that has stopped, or a full disk, must not stop those who log, nor raise where nobody expects it. How many
    lines were dropped is written before the next line that can be.
    """

    def __init__(self, stream: Callable[[], TextIO | None] = lambda: sys.stderr) -> None:
        """``stream`` returns standard error, which a program may replace at any time."""
        self._stream = stream
        self._lock = threading.Lock()
        self._dropped = 0

    def write(self, text: str) -> int:
        """Write a text, or drop it. Returns its length, as files do."""
        with self._lock:
            note = f"{self._dropped} lines could not be written here\n" if self._dropped else ""
            if self._written(note + text):
                self._dropped = 0
            else:
                self._dropped += 1
        return len(text)

    def flush(self) -> None:
        """Do nothing: nothing is kept back."""

    def _written(self, text: str) -> bool:
        stream = self._stream()
        if stream is None:
            return True
        try:
            number = stream.fileno()
        except (OSError, ValueError):  # it is in memory, or closed
            with contextlib.suppress(OSError, ValueError):
                stream.write(text)
            return True
        rest = memoryview(text.encode(errors="replace"))
        poll = select.poll()
        poll.register(number, select.POLLOUT)
        try:
            while rest:
                # Who has dropped a line already does not wait again.
                if not any(event & select.POLLOUT for _, event in poll.poll(0 if self._dropped else _PATIENCE_MS)):
                    return False
                rest = rest[os.write(number, rest[:_PIECE]) :]
        except OSError:
            return False
        return True


STDERR = NonBlockingStderr()
"""The standard error of this process."""
