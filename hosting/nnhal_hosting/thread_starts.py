"""Threads of a process that may run out of memory."""

from __future__ import annotations

import mmap
import threading

_LEAST_BYTES = 2 << 20
"""What Python may take for a thread before its first line, generously."""
_REFUSAL = "can't start new thread"  # as CPython says
_LOOKS = 20
_LOOK_SECONDS = 0.1


class _Beginning(threading.Event):
    """What a thread sets when it begins, and who starts it waits for without a limit."""

    def __init__(self) -> None:
        super().__init__()
        self._deciding = threading.Lock()
        self._given_up = False

    def set(self) -> None:
        with self._deciding:
            if self._given_up:
                raise SystemExit
            super().set()

    def wait(self, timeout: float | None = None) -> bool:
        for _ in range(_LOOKS):  # several short ones, since the process may be stopped meanwhile
            if super().wait(_LOOK_SECONDS):
                return True
        with self._deciding:
            self._given_up = not self.is_set()
        if self._given_up:
            raise RuntimeError(_REFUSAL)
        return True


def refuse_threads_without_memory() -> None:
    """From now on ``Thread.start`` raises RuntimeError, as documented, if the thread ends before it has begun.

    CPython's waits for ever for a thread that had no memory for its first frame, with all locks that its caller holds:
    one client that had taken a device's memory so stopped the runs of all others.
    """
    start = threading.Thread.start

    def start_or_raise(thread: threading.Thread) -> None:
        try:
            mmap.mmap(-1, _LEAST_BYTES).close()
        except OSError as error:
            raise RuntimeError(_REFUSAL) from error
        thread._started = _Beginning()  # type: ignore[attr-defined] # what start() waits for, in all versions
        start(thread)

    threading.Thread.start = start_or_raise  # type: ignore[assignment, method-assign]
