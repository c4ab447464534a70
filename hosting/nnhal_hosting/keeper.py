"""Keeping a supervised process running: it is started again whenever it dies."""

from __future__ import annotations

import enum
import os
import select
import threading
import time
import weakref
from collections.abc import Callable

from nnhal_hosting.supervision import Child, StartError, ended_in_words

_FIRST_RESTART_SECONDS = 0.2
_LONGEST_RESTART_SECONDS = 10.0
STARTED, DIED = "started", "died"
"""What a keeper tells of its process."""


class KeptState(enum.Enum):
    """How a kept process fares."""

    STARTING = enum.auto()
    """It runs and does not serve yet."""
    RUNNING = enum.auto()
    """It serves."""
    WAITING = enum.auto()
    """It has died and will be started again."""


class Keeper:
    """A process that is started again when it dies, with a longer delay each time that it dies soon after its start."""

    def __init__(
        self, name: str, launch: Callable[[], Child], tell: Callable[[str, str], None] = lambda _, __: None
    ) -> None:
        """Launch the process. ``tell`` is called when it has died (DIED) and serves again (STARTED), with a sentence.

        Raises OSError.
        """
        self._launch = launch
        self._tell = tell
        self._seconds = 60.0
        self.state = KeptState.STARTING
        self.restarts = 0
        """How often it serves again after a death."""
        self.last_end = ""
        """How it ended last, in plain words; empty if it never did."""
        self._leaving = os.eventfd(0, os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self._leaving)
        self._start()
        self._watcher = threading.Thread(target=self._watch, name=f"watch-{name}", daemon=True)

    @property
    def started_ns(self) -> int:
        """When the process was launched last, by CLOCK_BOOTTIME."""
        return self._started_ns

    def keep(self, seconds: float = 60.0) -> None:
        """Wait until the process serves, and watch it from then on. Raises StartError if it does not serve in time.

        When it is started again, it has as many seconds.
        """
        self._seconds = seconds
        self.child.wait_until_ready(seconds, self._leaving)
        self.state = KeptState.RUNNING
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
        self.state = KeptState.STARTING
        self._started_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def _watch(self) -> None:
        delay = _FIRST_RESTART_SECONDS
        while self.child.await_end(self._leaving):
            lived = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - self._started_ns
            delay = _FIRST_RESTART_SECONDS if lived > _LONGEST_RESTART_SECONDS * 1e9 else delay
            end = f"process {self.child.pid} {ended_in_words(self.child.stop())}"
            while True:
                self.last_end, self.state = end, KeptState.WAITING
                self._tell(DIED, f"{end}; starting it again in {delay:.1f} s")
                if self._left_within(delay):
                    return
                delay = min(2 * delay, _LONGEST_RESTART_SECONDS)
                try:
                    self._start()
                    self.child.wait_until_ready(self._seconds, self._leaving)
                except (OSError, StartError) as error:
                    end = str(error)
                    if self._left_within(0):
                        return
                else:
                    break
            self.restarts += 1
            self.state = KeptState.RUNNING
            self._tell(STARTED, f"process {self.child.pid} serves")

    def _left_within(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._leaving, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
