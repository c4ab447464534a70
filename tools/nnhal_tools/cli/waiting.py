"""Something that moves on the terminal as long as a command has not written anything."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, TextIO

from nnhal.threads import BriefThread

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FIRST_SECONDS, _FRAME_SECONDS = 0.2, 0.1
_ERASE = "\r\x1b[K"


class MovingSign:
    """Moves a sign on standard error, if that is a terminal, from a moment after ``start`` until ``end``.

    The first write to standard output or error ends it, so that commands need to know nothing of it.
    """

    def __init__(self, words: str) -> None:
        self._words, self._terminal = words, sys.stderr
        self._ended = threading.Event()
        self._drawing = threading.Lock()
        self._is_drawn = False

    def start(self) -> None:
        """Begin, unless standard error is no terminal."""
        if self._terminal.isatty():
            sys.stdout, sys.stderr = (_Watched(each, self.end) for each in (sys.stdout, sys.stderr))
            BriefThread(self._move, "waiting").start()

    def end(self) -> None:
        """Erase the sign, for good."""
        with self._drawing:
            self._ended.set()
            if self._is_drawn:
                self._terminal.write(_ERASE)
                self._terminal.flush()
                self._is_drawn = False

    def _move(self) -> None:
        number, pause = 0, _FIRST_SECONDS
        while not self._ended.wait(pause):
            with self._drawing:
                if not self._ended.is_set():
                    self._terminal.write(f"\r{_FRAMES[number % len(_FRAMES)]} {self._words}")
                    self._terminal.flush()
                    self._is_drawn = True
            number, pause = number + 1, _FRAME_SECONDS


class _Watched:
    """A stream that tells of the first write to it, and before that."""

    def __init__(self, stream: TextIO, is_written: Callable[[], None]) -> None:
        self._stream, self._is_written = stream, is_written

    def __getattr__(self, name: str) -> Any:
        if name in ("write", "writelines", "buffer"):
            self._is_written()
        return getattr(self._stream, name)
