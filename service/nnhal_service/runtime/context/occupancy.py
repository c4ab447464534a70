"""One run at a time until a context is released, and the errors of runs that may not begin."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from nnhal.errors import HalError, NnhalError, general_failure
from nnhal.types import ErrorStatus
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime.run.cancellation import CancelledRunError
from nnhal_service.runtime.run.engine import FINAL_ERRORS
from nnhal_service.unloaded import UnloadedError

_STOP_SECONDS = 2.0
"""The time that closing waits for a cancelled run. A longer one releases what it uses at its end."""
_MISSED = (ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT)
_log = get_logger(__name__)


class Occupancy:
    """Lets one run at a time use what is bound, which is released when none uses it any more.

    Safe to use from several threads.
    """

    def __init__(self, release: Callable[[], None]) -> None:
        """``release`` is called once, after ``close``, when no run uses what is bound."""
        self._release = release
        self._busy = threading.Lock()
        self._is_released = self._is_unloaded = False
        self.is_closing = False
        """True if no run begins any more."""
        self.entered_ns = 0
        """When the run in flight began, by the performance counter; 0 if there is none."""

    @property
    def is_taken(self) -> bool:
        return self._busy.locked()

    @property
    def taken_seconds(self) -> float:
        """For how long the run in flight has been in flight; 0 if there is none."""
        entered_ns = self.entered_ns
        return (time.perf_counter_ns() - entered_ns) / 1e9 if entered_ns else 0.0

    def enter(self) -> None:
        """Keep others from running until ``leave``. Raises HalError if another run has not ended, and after ``close``.

        After ``unload`` that is UnloadedError.
        """
        if not self._busy.acquire(blocking=False):
            if self._is_unloaded:
                raise UnloadedError
            general_failure("the binding is running already; one run at a time is allowed")
        if self.is_closing:
            self.leave()
            raise self.over()
        self.entered_ns = time.perf_counter_ns()

    def leave(self) -> None:
        """End a run; nothing uses its memory any more."""
        self.entered_ns = 0
        self._busy.release()
        if self.is_closing and self._busy.acquire(blocking=False):
            self._release_at_last()

    def close(self, drain_seconds: float, cancel: Callable[[], None]) -> None:
        """Release what is bound when a run in flight has ended; harmless if repeated.

        ``cancel`` is called for a run that has not ended within ``drain_seconds``. If it does not end soon, or at once
        if ``drain_seconds`` are 0, what is bound is released at its end: until then devices may use it.
        """
        self.is_closing = True
        if not self._busy.acquire(timeout=drain_seconds):
            cancel()
            if not self._busy.acquire(timeout=_STOP_SECONDS if drain_seconds else 0):
                if drain_seconds:
                    _log.warning("a cancelled run has not ended; what it uses is released when it ends")
                return
        self._release_at_last()

    def unload(self) -> None:
        """Note that the model is unloaded: runs that fail from now on say so."""
        self._is_unloaded = True

    def over(self) -> HalError:
        """Reason why nothing runs any more."""
        if self._is_unloaded:
            return UnloadedError()
        return HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the binding has been released")

    def explained(self, error: NnhalError) -> NnhalError:
        """The error of a run: UnloadedError if the model has been unloaded, which devices say in other words."""
        if not self._is_unloaded or (isinstance(error, HalError) and error.status in _MISSED):
            return error
        is_final = isinstance(error, FINAL_ERRORS) and not isinstance(error, CancelledRunError)
        return error if is_final else UnloadedError()

    def raise_unloaded(self, error: BaseException) -> None:
        """Raise what explains an error, if that is another one."""
        if self._is_unloaded and isinstance(error, NnhalError):
            explained = self.explained(error)
            if explained is not error:
                raise explained from error

    def _release_at_last(self) -> None:
        """Release what is bound, once; the caller has entered."""
        try:
            if not self._is_released:
                self._is_released = True
                self._release()
        finally:
            self._busy.release()
