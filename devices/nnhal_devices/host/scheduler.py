"""Which execution runs next on a device.

A device has workers, and each runs one execution at a time. An execution runs in the thread that brought it, once it is
admitted. Clients take turns. Among one client's executions the higher priority goes first, then the earlier deadline,
then the earlier arrival.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from nnhal.errors import HalError
from nnhal.types import NO_DEADLINE, ErrorStatus, Priority
from nnhal_devices.host.clock import now_ns

_NEVER = (1 << 63) - 1


@dataclass(order=True, slots=True)
class _Waiter:
    rank: tuple[int, int, int]
    admitted: threading.Event = field(compare=False, default_factory=threading.Event)


class Scheduler:
    """Admits executions, ``workers`` at a time. Every ``enter`` that returns must be followed by one ``leave``."""

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise ValueError(f"{workers} workers, expected at least 1")
        self.workers = workers
        self._lock = threading.Lock()
        self._free = workers
        self.ended = 0
        """How many executions have left."""
        self._queues: OrderedDict[object, list[_Waiter]] = OrderedDict()
        self._arrivals = itertools.count()

    @property
    def has_free_worker(self) -> bool:
        """Whether ``enter`` would not wait now."""
        return self._free > 0

    def enter(self, client: object, priority: Priority, deadline_ns: int) -> None:
        """Wait for a worker. Raises MISSED_DEADLINE_TRANSIENT if none is free before the deadline."""
        with self._lock:
            if self._free:
                self._free -= 1
                return
            deadline = _NEVER if deadline_ns == NO_DEADLINE else deadline_ns
            waiter = _Waiter((-priority, deadline, next(self._arrivals)))
            self._queues.setdefault(client, []).append(waiter)
        timeout = None if deadline == _NEVER else min(max(0, deadline - now_ns()) / 1e9, threading.TIMEOUT_MAX)
        if not waiter.admitted.wait(timeout) and self._withdraw(client, waiter):
            raise HalError(
                ErrorStatus.MISSED_DEADLINE_TRANSIENT,
                f"no worker was free before the deadline; {self.waiting} other executions wait",
            )

    def leave(self) -> None:
        """Hand the worker to the next execution."""
        with self._lock:
            self.ended += 1
            if not self._queues:
                self._free += 1
                return
            client, queue = next(iter(self._queues.items()))
            waiter = min(queue)
            queue.remove(waiter)
            if queue:
                self._queues.move_to_end(client)
            else:
                del self._queues[client]
            waiter.admitted.set()

    @property
    def waiting(self) -> int:
        """How many executions wait."""
        with self._lock:
            return sum(len(queue) for queue in self._queues.values())

    def _withdraw(self, client: object, waiter: _Waiter) -> bool:
        """Leave the queue. Returns False if the waiter has been admitted in the meantime."""
        with self._lock:
            if waiter.admitted.is_set():
                return False
            queue = self._queues[client]
            queue.remove(waiter)
            if not queue:
                del self._queues[client]
            return True
