"""The threads that nnhal starts: those that last go on whatever fails, and none fails without a line in the log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Self

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
_AGAIN_SECONDS = 60.0
"""The time that the same failure is not logged again."""
_log = logging.getLogger(__name__)


class BriefThread(threading.Thread):
    """A daemon that does something once. What that raises is logged."""

    def __init__(self, work: Callable[[], object], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._logged, self._logged_at = "", 0.0

    def started(self) -> Self | None:
        """Start it, and return it; None if the process can have no other thread, so that the caller tries again."""
        try:
            self.start()
        except RuntimeError as error:
            self._log_failure(error)
            return None
        return self

    def run(self) -> None:
        try:
            self._has_done()
        finally:
            del self._work  # which may refer to this thread

    def _has_done(self) -> bool:
        try:
            self._work()
        except Exception as error:
            self._log_failure(error)
            return False
        return True

    def _log_failure(self, error: Exception) -> None:
        said, now = repr(error), time.monotonic()
        if said != self._logged or now - self._logged_at > _AGAIN_SECONDS:
            self._logged, self._logged_at = said, now
            with suppress(Exception):  # without descriptors or memory a line may be lost, but not the thread
                _log.error("a thread has failed: %s", self.name, exc_info=error)


class LastingThread(BriefThread):
    """A daemon that ends only when its work returns, as it does when it is asked to.

    If the work raises, for want of descriptors or for a defect, it is begun again after a pause, which grows. So it
    keeps what it has to know in the object that it belongs to. The same failure is logged once a minute.
    """

    def run(self) -> None:
        pause, began = _FIRST_PAUSE_SECONDS, time.monotonic()
        while not self._has_done():
            if time.monotonic() - began > 2 * _LONGEST_PAUSE_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            time.sleep(pause)
            pause, began = min(2 * pause, _LONGEST_PAUSE_SECONDS), time.monotonic()
        del self._work
