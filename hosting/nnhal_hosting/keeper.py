"""Keeping a supervised process running: it is started again whenever it dies."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable

from nnhal_hosting.supervision import Child, StartError

_FIRST_RESTART_SECONDS = 0.2
_LONGEST_RESTART_SECONDS = 10.0


class Keeper:
    """A process that is started again when it dies, with a longer delay each time that it dies soon after its start."""

    def __init__(self, name: str, launch: Callable[[], Child], tell: Callable[[str], None] = lambda _: None) -> None:
        """Launch the process. ``tell`` is called with a line when it has died, and when it serves again.

        Raises OSError.
        """
        self._name = name
        self._launch = launch
        self._tell = tell
        self.child = launch()
        """The process that runs now, or ran last."""
        self._stopping, self._stop = os.pipe2(os.O_CLOEXEC)
        self._watcher = threading.Thread(target=self._watch, name=f"watch-{name}", daemon=True)

    def keep(self, seconds: float = 60.0) -> None:
        """Wait until the process serves, and watch it from then on. Raises StartError if it does not serve in time."""
        self.child.wait_until_ready(seconds)
        self._watcher.start()

    def leave(self) -> Child:
        """Watch it no longer, and return the process, which the caller stops."""
        os.close(self._stop)
        if self._watcher.ident is not None:
            self._watcher.join()
        os.close(self._stopping)
        return self.child

    def _watch(self) -> None:
        delay = _FIRST_RESTART_SECONDS
        while True:
            child, started = self.child, time.monotonic()
            if not self._await_death(child.pid):
                return
            status = child.stop()
            lived = time.monotonic() - started
            delay = _FIRST_RESTART_SECONDS if lived > _LONGEST_RESTART_SECONDS else delay
            name = self._name
            self._tell(f"{name}: process {child.pid} ended with status {status}; starting it again in {delay:.1f} s")
            if select.select([self._stopping], [], [], delay)[0]:
                return
            delay = min(2 * delay, _LONGEST_RESTART_SECONDS)
            try:
                self.child = self._launch()
                self.child.wait_until_ready()
                self._tell(f"{name}: process {self.child.pid}")
            except (OSError, StartError) as error:
                self._tell(str(error))

    def _await_death(self, pid: int) -> bool:
        """Wait until a process has died. Returns False if it is to be watched no longer."""
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return True
        try:
            ready, _, _ = select.select([handle, self._stopping], [], [])
            return self._stopping not in ready
        finally:
            os.close(handle)
