"""Choice of the execution that runs next on a device.

A device has workers, and each runs one execution at a time. An execution runs in the thread that brought it, once it is
admitted. Clients take turns. Among one client's executions the higher priority goes first, then the earlier deadline,
then the earlier arrival. An execution that takes long while others wait hands its worker on, and goes on beside them.

What runs, what waits and what is in the command queue is noted here as well: for the watchdog, and for operators, who
can cancel it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from operator import attrgetter
from time import perf_counter_ns
from typing import NamedTuple, Protocol

from nnhal.clock import now_ns
from nnhal.errors import HalError, general_failure
from nnhal.types import NO_DEADLINE, ErrorStatus, Priority
from nnhal_devices.driver import CANCELLED, Control

_NEVER = (1 << 63) - 1
_MOST_RELIEVED = 64
"""Executions that may run beside those of the workers: each has a thread, and a share of the processors."""


class Admissible(Protocol):
    """An execution as the scheduler sees it. It is admitted once at a time."""

    priority: Priority

    is_reserved: bool
    """True if the device has accepted it some time before it enters, as it accepts an execution that is launched."""

    @property
    def owner(self) -> object:
        """The client that takes its turn with it."""
        ...

    @property
    def unwanted(self) -> str:
        """Return why nobody waits for it any more; empty if somebody does."""
        ...

    @property
    def slowest_ns(self) -> int:
        """Return how long its slowest run has taken; 0 if that says nothing of the run under way."""
        ...


class Admission(NamedTuple):
    """An execution that runs, that waits for a worker, or that is in the command queue of the device."""

    number: int
    """Tells it from all others of the scheduler, also of the same execution."""

    execution: Admissible

    control: Control
    """The limits of this run."""

    since_ns: int
    """Since when it runs or waits, by CLOCK_BOOTTIME."""


@dataclass(eq=False, slots=True)
class _Waiter:
    rank: tuple[int, int, int]
    execution: Admissible
    control: Control
    arrived: int
    woken: threading.Event = field(default_factory=threading.Event)
    admitted: bool = False


class Scheduler:
    """Admits executions, ``workers`` at a time. Every ``enter`` that returns must be followed by one ``leave``.

    What is noted of each run costs about a fifth of a microsecond. Instants are therefore read from the fastest clock;
    that at which an execution has come, one at a time, is its number as well.
    """

    def __init__(self, workers: int, is_serial: bool = False) -> None:
        """With ``is_serial`` there is one worker, whatever ``workers`` says, and no execution runs beside another."""
        if workers < 1:
            raise ValueError(f"{workers} workers, expected at least 1")
        workers = 1 if is_serial else workers
        self.workers, self._is_serial = workers, is_serial
        self._lock = threading.Lock()
        self._free = workers
        """Workers that take any execution. While the device drains it is less by all workers, and thus not above 0."""
        self._draining = False
        self.ended = 0
        """How many executions have left."""
        self._busy_ns = 0
        self._running: dict[Admissible, tuple[int, int, Control]] = {}
        """Since when each runs, its number, and its limits."""
        self._queues: OrderedDict[object, list[_Waiter]] = OrderedDict()
        self._relieved: set[Admissible] = set()
        """The executions that run beside those that have got their workers."""
        self._enqueued: dict[int, Admission] = {}
        self.wakes = threading.Event()
        """Set while executions are looked after. What looks after them clears it when there are none."""

    @property
    def is_idle(self) -> bool:
        """Return whether no execution runs or waits."""
        return not (self._running or self._queues or self._enqueued)

    @property
    def has_free_worker(self) -> bool:
        """Return whether ``enter`` would not wait now."""
        return self._free > 0

    def enter(self, execution: Admissible, control: Control) -> None:
        """Wait for a worker. Raises MISSED_DEADLINE_TRANSIENT if none is free before the deadline.

        Raises DEVICE_UNAVAILABLE if the device drains, and GENERAL_FAILURE if an operator cancels the execution.
        """
        with self._lock:
            if self._free > 0 or self._admits(execution):
                self._free -= 1
                now = perf_counter_ns()
                self._running[execution] = now, now, control
                if not self.wakes.is_set():
                    self.wakes.set()
                return
            now = perf_counter_ns()
            deadline = _NEVER if control.deadline_ns == NO_DEADLINE else control.deadline_ns
            waiter = _Waiter((-execution.priority, deadline, now), execution, control, now)
            self._queues.setdefault(execution.owner, []).append(waiter)
        timeout = None if deadline == _NEVER else min(max(0, deadline - now_ns()) / 1e9, threading.TIMEOUT_MAX)
        if not waiter.woken.wait(timeout) and self._withdraw(waiter):
            raise HalError(
                ErrorStatus.MISSED_DEADLINE_TRANSIENT,
                f"no worker was free before the deadline; {self.waiting} other executions wait",
            )
        if control.cancelled and not waiter.admitted:
            general_failure(control.reason)

    def leave(self, execution: Admissible) -> int:
        """Hand the worker to the next execution, unless it was handed on already. Return how long it ran, in ns."""
        with self._lock:
            now = perf_counter_ns()
            ran_ns = now - self._running.pop(execution)[0]
            self._busy_ns += ran_ns
            self.ended += 1
            if self._relieved and execution in self._relieved:
                self._relieved.remove(execution)
            elif self._queues:
                self._admit_next(now)
            else:
                self._free += 1
            return ran_ns

    def relieve(self, longest_ns: int) -> None:
        """Hand on the workers of executions that have run for longer, if others wait: these run beside them."""
        if self._is_serial:
            return
        with self._lock:
            now = perf_counter_ns()
            for execution, (since, _, _) in list(self._running.items()):
                if not self._queues or len(self._relieved) == _MOST_RELIEVED:
                    return
                if now - since > longest_ns and execution not in self._relieved:
                    self._relieved.add(execution)
                    self._admit_next(now)

    def cancel(self, number: int, reason: str = CANCELLED) -> bool | None:
        """Cancel an execution by its number: return True if it has ended, False if it ends once its driver looks.

        Returns None if it neither waits nor runs. ``reason`` is for its client.
        """
        with self._lock:
            for _, running, control in self._running.values():
                if running == number:
                    control.cancel(reason)
                    return False
            waiter = next((waiter for waiter in self._waiters() if waiter.arrived == number), None)
            if waiter is None:
                return None
            self._dequeue(waiter)
            waiter.control.cancel(reason)
            waiter.woken.set()
            return True

    def note_enqueued(self, execution: Admissible, control: Control) -> int:
        """Note that an execution is in the command queue of the device; return its number, for ``forget_enqueued``."""
        with self._lock:
            number = perf_counter_ns()
            self._enqueued[number] = Admission(number, execution, control, now_ns())
        self.wakes.set()
        return number

    def forget_enqueued(self, number: int) -> None:
        """Note that an execution is no longer in the command queue."""
        with self._lock:
            del self._enqueued[number]

    def enqueued(self) -> list[Admission]:
        """Return the executions in the command queue of the device, as they are at one moment."""
        with self._lock:
            return list(self._enqueued.values())

    def drain(self, drain: bool) -> None:
        """Admit no further executions but those that are reserved and those that wait, or admit all again."""
        with self._lock:
            if drain != self._draining:
                self._draining = drain
                self._free += -self.workers if drain else self.workers

    @property
    def draining(self) -> bool:
        """Return whether the device takes no new work."""
        return self._draining

    def require_open(self) -> None:
        """Raise DEVICE_UNAVAILABLE if the device drains."""
        if self._draining:
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the device is draining: it takes no new work")

    def admissions(self) -> tuple[list[Admission], list[Admission]]:
        """Return the executions that run, and those that wait for a worker, as they are at one moment."""
        with self._lock:
            later = now_ns() - perf_counter_ns()
            running = [
                Admission(number, execution, control, since + later)
                for execution, (since, number, control) in self._running.items()
            ]
            waiting = [
                Admission(waiter.arrived, waiter.execution, waiter.control, waiter.arrived + later)
                for waiter in sorted(self._waiters(), key=attrgetter("arrived"))
            ]
            return running, waiting

    @property
    def busy_ns(self) -> int:
        """The time for which workers have run executions, summed over the workers."""
        with self._lock:
            now = perf_counter_ns()
            return self._busy_ns + sum(now - since for since, _, _ in self._running.values())

    @property
    def waiting(self) -> int:
        """Return how many executions wait."""
        with self._lock:
            return len(self._waiters())

    def _admits(self, execution: Admissible) -> bool:
        """True if a worker that takes reserved executions only takes this one. Raises DEVICE_UNAVAILABLE if not."""
        if not self._draining:
            return False
        if not execution.is_reserved:
            self.require_open()
        return self._free + self.workers > 0

    def _admit_next(self, now: int) -> None:
        """Give a worker to the execution whose turn it is; there is one. The lock is held."""
        client, queue = next(iter(self._queues.items()))
        waiter = min(queue, key=_rank)
        self._dequeue(waiter)
        if queue:
            self._queues.move_to_end(client)
        self._running[waiter.execution] = now, waiter.arrived, waiter.control
        waiter.admitted = True
        waiter.woken.set()

    def _waiters(self) -> list[_Waiter]:
        return [waiter for queue in self._queues.values() for waiter in queue]

    def _withdraw(self, waiter: _Waiter) -> bool:
        """Leave the queue. Returns False if the waiter has been admitted or cancelled in the meantime."""
        with self._lock:
            if waiter.woken.is_set():
                return False
            self._dequeue(waiter)
            return True

    def _dequeue(self, waiter: _Waiter) -> None:
        client = waiter.execution.owner
        queue = self._queues[client]
        queue.remove(waiter)
        if not queue:
            del self._queues[client]


_rank = attrgetter("rank")


def require_ahead(deadline_ns: int) -> None:
    """Raise MISSED_DEADLINE_PERSISTENT if a deadline has passed already: the same call can only miss it again."""
    if deadline_ns != NO_DEADLINE and now_ns() > deadline_ns:
        raise HalError(ErrorStatus.MISSED_DEADLINE_PERSISTENT, "the deadline had passed before the work began")
