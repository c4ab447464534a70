"""Alarms: work to do after some time, unless it is called off before."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

from nnhal.threads import BriefThread, LastingThread

_LATER_SECONDS = 0.5
"""When a thread is tried again for which there was no memory."""


class Alarms:
    """Starts threads for what is due. One thread waits for all: most calls end before, and a thread for each of them
    may take longer to start than the call, if the processors are busy. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: LastingThread | None = None
        self._waits_until = inf
        self._due: dict[object, tuple[float, Callable[[], object]]] = {}

    @contextmanager
    def set(self, seconds: float, ring: Callable[[], object]) -> Iterator[None]:
        """Have ``ring`` called in a thread of its own after so many seconds, unless the context is left before."""
        alarm, at = object(), time.monotonic() + seconds
        with self._changed:
            if self._thread is None or not self._thread.is_alive():  # a forked process has none
                self._thread = LastingThread(self._wait, "alarms")
                self._thread.start()
            elif at < self._waits_until:
                self._changed.notify()
            self._due[alarm] = at, ring
        try:
            yield
        finally:
            with self._changed:
                self._due.pop(alarm, None)

    def _wait(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for alarm, (_, ring) in [one for one in self._due.items() if one[1][0] <= now]:
                    if BriefThread(ring, "alarm").started():
                        del self._due[alarm]
                    else:
                        self._due[alarm] = now + _LATER_SECONDS, ring
                self._waits_until = min((at for at, _ in self._due.values()), default=inf)
                self._changed.wait(None if self._waits_until == inf else self._waits_until - now)


ALARMS = Alarms()
"""Those of this process."""
