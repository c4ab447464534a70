"""Keeping a supervised process running: it is started again whenever it dies."""

from __future__ import annotations

import enum
import os
import select
import time
import weakref
from collections.abc import Callable
from contextlib import suppress

from nnhal.threads import LastingThread
from nnhal_hosting.logs import get_logger
from nnhal_hosting.supervision import Child, StartError, is_stopped

_log = get_logger(__name__)
_FIRST_RESTART_SECONDS = 0.2
_LONGEST_AFTER_SERVING_SECONDS = 0.4
"""A process that serves again and again is needed."""
_LONGEST_RESTART_SECONDS = 10.0
STARTED, DIED = "started", "died"
"""What is reported of the process."""


class RestartState(enum.Enum):
    STARTING = enum.auto()
    """It runs and does not serve yet."""
    RUNNING = enum.auto()
    """It serves."""
    WAITING = enum.auto()
    """It has died and will be started again."""


class RestartedProcess:
    """A process that is started again when it dies, with a longer delay each time that it dies soon after its start."""

    def __init__(
        self, name: str, launch: Callable[[], Child], report: Callable[[str, str], None] = lambda _, __: None
    ) -> None:
        """Launch the process. ``tell`` is called when it has died (DIED) and serves again (STARTED), with a sentence.

        Raises OSError.
        """
        self._launch = launch
        self._report = report
        self._seconds = 60.0
        self.state = RestartState.STARTING
        self.restarts = 0
        """How often it serves again after a death."""
        self.last_end = ""
        """How it ended last, in plain words; empty if it never did."""
        self._has_served = True
        self._next_start = 0.0
        self._leaving = os.eventfd(0, os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self._leaving)
        self._start()
        self._watcher = LastingThread(self._watch, f"watch-{name}")

    @property
    def started_ns(self) -> int:
        """Time of the process's last launch, by CLOCK_BOOTTIME."""
        return self._started_ns

    @property
    def waits_for(self) -> str:
        """Return what is waited for, in words; empty if the process serves."""
        if self.state is RestartState.WAITING:
            return f"its next start in {max(0.0, self._next_start - time.monotonic()):.1f} s"
        with suppress(OSError):  # who has no descriptor left cannot look, and tells the rest
            if is_stopped(self.child.pid):
                return f"process {self.child.pid}, which a signal has stopped (SIGCONT lets it go on)"
        if self.state is RestartState.STARTING:
            taken = (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - self._started_ns) / 1e9
            return f"process {self.child.pid} to serve, for {taken:.0f} of {self._seconds:.0f} s"
        return ""

    def keep(self, seconds: float = 60.0) -> None:
        """Wait until the process serves, and watch it from then on. Raises StartError if it does not serve in time.

        When it is started again, it has as many seconds.
        """
        self._seconds = seconds
        self.child.wait_until_ready(seconds, self._leaving)
        self.state = RestartState.RUNNING
        try:
            self._watcher.start()
        except RuntimeError as error:
            raise StartError(f"{self.child.name} cannot be watched: {error}") from error

    def leave(self) -> Child:
        """Watch it no longer, and return the process, which the caller stops. A start that is waited for fails."""
        os.eventfd_write(self._leaving, 1)
        if self._watcher.ident is not None:
            self._watcher.join()
        return self.child

    def _start(self) -> None:
        self.child = self._launch()
        """The process that runs now, or ran last."""
        self.state = RestartState.STARTING
        self._started_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def _watch(self) -> None:
        """Start the process whenever it dies."""
        delay = _FIRST_RESTART_SECONDS
        while self.child.await_end(self._leaving):
            lived = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - self._started_ns
            has_lived = self._has_served and lived > _LONGEST_RESTART_SECONDS * 1e9
            delay = _FIRST_RESTART_SECONDS if has_lived else min(delay, _LONGEST_AFTER_SERVING_SECONDS)
            end = f"process {self.child.pid} {self.child.ended_in_words(self.child.stop())}"
            while end:
                self.last_end, self.state, self._next_start = end, RestartState.WAITING, time.monotonic() + delay
                self._say(DIED, f"{end}; starting it again in {delay:.1f} s")
                if self._left_within(delay):
                    return
                delay = min(2 * delay, _LONGEST_RESTART_SECONDS)
                end = self._started_again()
                if end and self._left_within(0):
                    return
            self.restarts += 1
            self._has_served = True
            self.state = RestartState.RUNNING
            self._say(STARTED, f"process {self.child.pid} serves")

    def _started_again(self) -> str:
        """Start the process and wait until it serves. Returns why it does not, empty if it does."""
        self._has_served = False
        try:
            self._start()
            self.child.wait_until_ready(self._seconds, self._leaving)
        except StartError as error:
            return str(error)
        except OSError as error:
            return f"it cannot be started: {error.strerror or error}"
        except Exception:
            _log.exception("a process cannot be started")
            return "it cannot be started; the log of its supervisor has the reason"
        return ""

    def _say(self, kind: str, text: str) -> None:
        try:
            self._report(kind, text)
        except Exception:
            _log.exception("an event of a process was lost", reason=text)

    def _left_within(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._leaving, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
