"""Ends executions that are to end: at their deadline, when they are cancelled, and when nobody waits for them any more.

Most drivers look at the limits of a run themselves, between operations. The watchdog does what they cannot do: it stops
a library that computes for long, and it notices that a client has left. If a driver does not end an execution that
should have ended some time ago, the watchdog ends the process, as the last resort: what supervises the process starts
it again. An execution that has no deadline, and that nobody wants to end, may take as long as it likes, but others do
not wait for it for ever. If it takes far longer than it ever has, its driver hangs, and it is cancelled. The watchdog
also has the process end that takes more memory than it may.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple

from nnhal.threads import LastingThread
from nnhal_devices.host.memory.memory_watch import MemoryWatch
from nnhal_devices.host.runs.scheduler import Admissible, Admission, Scheduler
from nnhal_hosting.logs import get_logger
from nnhal_hosting.processor_time import ProcessorTime
from nnhal_hosting.supervision import end_at_once, is_traced

_LOOK_SECONDS = 0.025
"""How often it looks while executions run: the execution of a brief run ends before it is seen."""
_QUIET_LOOKS = 40
"""After so many looks at an idle device, the watchdog sleeps until the next execution."""
_IDLE_SECONDS = 0.1
"""How often it then looks at the memory of the process, which may prepare a model."""
_LONGEST_LOOK_SECONDS = 1.0
"""The most that counts of the time between two looks: while the process is frozen, no driver can end an execution."""
HANG_FACTOR = 20
"""An execution hangs that takes so many times as long as its slowest run."""
_log = get_logger(__name__)


class Hung(NamedTuple):
    """The executions that were cancelled since they hung."""

    number: int = 0
    last: str = ""
    """The last of them, and why."""
    last_ns: int = 0
    """When, in nanoseconds since the epoch."""


class Watchdog:
    """Looks after the executions of a scheduler, in a thread of its own that exists while it is used as a context."""

    def __init__(
        self,
        scheduler: Scheduler,
        patience: float,
        turn: float,
        describe: Callable[[Admissible], str] = repr,
        last_resort: Callable[[str], object] = end_at_once,
        memory: MemoryWatch | None = None,
        hang: float = 0,
    ) -> None:
        """``patience`` is how many seconds after it should have ended an execution may go on.

        ``turn`` is for how many seconds one may have others wait for its worker. ``describe`` names an execution in the
        log. ``last_resort`` is called with the reason if one does not end in time. ``memory`` looks at what the process
        takes. No execution hangs before it has run for ``hang`` seconds; with 0 none ever does.
        """
        self._memory = memory
        self._scheduler = scheduler
        self._patience = patience
        self._turn_ns = int(turn * 1e9)
        self._describe = describe
        self._last_resort = last_resort
        self._late: dict[int, float] = {}
        """For how many seconds executions should have ended, by number, as far as there was a processor for that."""
        self._its_time: ProcessorTime | None = None
        self._hang = hang
        self._ran: dict[int, float] = {}
        """For how many seconds executions have run alone, or would have if they had not shared the processors."""
        self.hung = Hung()
        self._over = False
        self._thread = LastingThread(self._watch, "watchdog")

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._scheduler.wakes.set()
        self._thread.join()

    def _watch(self) -> None:
        scheduler, quiet, looked = self._scheduler, 0, time.monotonic()
        while not self._over:
            time.sleep(_LOOK_SECONDS)
            now = time.monotonic()
            passed, looked = min(now - looked, _LONGEST_LOOK_SECONDS), now
            quiet = 0 if self._look(passed) else quiet + 1
            if quiet < _QUIET_LOOKS:
                continue
            quiet = 0
            scheduler.wakes.clear()
            while scheduler.is_idle and not self._over:  # what enters from now on wakes the watchdog
                if scheduler.wakes.wait(_IDLE_SECONDS if self._memory is not None else None):
                    break
                self._look_at_memory()
            looked = time.monotonic()

    def _look(self, passed: float) -> bool:
        """Look after ``passed`` seconds; return whether there are executions."""
        self._look_at_memory()
        self._scheduler.relieve(self._turn_ns)
        running, waiting = self._scheduler.admissions()
        for number, execution, control, _ in (*running, *waiting):
            if not control.cancelled and (reason := execution.unwanted):
                self._scheduler.cancel(number, reason)
        if self._hang:
            self._cancel_hanging(running, passed)
        enqueued = self._scheduler.enqueued()
        for _, execution, control, _ in enqueued:
            if not control.cancelled and (reason := execution.unwanted):
                control.cancel(reason)
        late = {
            admission.number: admission
            for admission in (*running, *(each for each in enqueued if each.control.stop is not None))
            if _should_have_ended(admission)
        }
        self._its_time = (self._its_time or ProcessorTime(os.getpid())) if late else None
        had = self._its_time.passed(_LONGEST_LOOK_SECONDS) if self._its_time is not None else 0.0
        self._late = {number: self._late.get(number, -had) + had for number in late}
        for number, admission in late.items():
            self._interrupt(admission)
            if self._late[number] >= self._patience:
                self._give_up(admission)
        return bool(running or waiting or enqueued)

    def _cancel_hanging(self, running: list[Admission], passed: float) -> None:
        self._ran = {
            number: self._ran.get(number, -passed / len(running)) + passed / len(running) for number, *_ in running
        }
        for number, execution, control, _ in running:
            ran, slowest = self._ran[number], execution.slowest_ns / 1e9
            if not slowest or control.cancelled or ran < max(self._hang, HANG_FACTOR * slowest):
                continue
            if is_traced(os.getpid()):
                return
            reason = f"it hangs: it has run for {ran:.3g} s, and its slowest run took {slowest:.3g} s"
            name = self._describe(execution)
            _log.error("an execution hangs", execution=name, reason=reason)
            self.hung = Hung(self.hung.number + 1, f"{name} was cancelled: {reason}", time.time_ns())
            self._scheduler.cancel(number, reason)

    def _look_at_memory(self) -> None:
        if self._memory is not None:
            self._memory.look(lambda: [self._describe(each.execution) for each in self._scheduler.admissions()[0]])

    def _interrupt(self, admission: Admission) -> None:
        try:
            admission.control.interrupt()
        except Exception:
            _log.exception("a driver has failed to stop an execution", execution=self._describe(admission.execution))

    def _give_up(self, admission: Admission) -> None:
        control = admission.control
        described, late = self._describe(admission.execution), self._late[admission.number]
        ended_for = control.reason if control.cancelled else "its deadline"
        _log.error(
            "an execution does not end, and its driver cannot stop it: this process ends",
            execution=described,
            ended_for=ended_for,
            seconds_ago=round(late, 1),
        )
        self._last_resort(f"a run hung for {late:.3g} s after it was to end: {described}; {ended_for}")


def _should_have_ended(admission: Admission) -> bool:
    return admission.control.cancelled or admission.control.has_expired
