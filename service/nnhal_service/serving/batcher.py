"""Which request runs when: requests take free instances, or wait for one, alone or joined into batches.

Only the requests' own threads run. A request that finds a free instance runs at once, in its own thread. The others
wait. A thread that frees an instance hands it to the next batch, and one request of that batch, its leader, runs the
batch for all of them. Nothing else can take an instance that has been handed over, so no batch is overtaken and no
wake-up is lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.serving.config import ServingConfig
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.queue import NEVER, RequestQueue, Ticket, TicketState

T = TypeVar("T", bound=Ticket)


class Batcher(Generic[T]):
    """Runs tickets. Safe to use from several threads."""

    def __init__(
        self,
        config: ServingConfig,
        run: Callable[[Sequence[T]], None],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """``run`` runs a batch, in up to ``config.instances`` threads at a time; it must not raise."""
        self._run = run
        self._clock = clock
        self._lock = threading.Lock()
        self._queue: RequestQueue[T] = RequestQueue(config)
        self._instances = config.instances
        self._free = config.instances
        self._closed = False
        self._idle = threading.Condition(self._lock)
        self._in_order = config.batching is not None and config.batching.preserve_ordering
        self._leading: dict[T, Sequence[T]] = {}
        self._started = 0
        self._answered = 0
        self._turn = threading.Condition(self._lock)

    @property
    def pending(self) -> int:
        """How many tickets wait."""
        with self._lock:
            return len(self._queue)

    def submit(self, ticket: T, cancellation: Cancellation) -> None:
        """Run a ticket, in this thread or in another, and return when it has run.

        Raises ServingError if it does not run, or fails.
        """
        with self._lock:
            if self._closed:
                raise ServingError(ErrorKind.UNAVAILABLE, "the model is being unloaded")
            now = self._clock()
            if self._free and not self._queue and not self._queue.waits_for_others(ticket):
                ticket.queued_ns = now
                batch: Sequence[T] | None = self._start(ticket, [ticket])
            else:
                self._queue.put(ticket, now)
                ticket.wake = threading.Condition(self._lock)
                self._dispatch(ticket)
                batch = None
        if batch is None:
            cancel = partial(self._cancel, ticket)
            cancellation.on_cancel(cancel)
            try:
                batch = self._wait(ticket)
            finally:
                cancellation.forget(cancel)
        if batch is not None:
            self._lead(ticket, batch)

    def close(self) -> None:
        """Refuse new tickets, and return when all others have run; harmless when repeated."""
        with self._lock:
            self._closed = True
            self._queue.drains = True
            self._dispatch(None)
            while self._queue or self._free < self._instances:
                self._idle.wait()

    def _wait(self, ticket: T) -> Sequence[T] | None:
        """Wait; the batch that this thread has to run, None if another thread has run it. Raises the ticket's error."""
        if ticket.wake is None:
            raise TypeError("a ticket that waits has a condition")
        with self._lock:
            while ticket.is_queued:
                now = self._clock()
                still_there = self._queue.expire(ticket, now)
                self._dispatch(ticket)
                if not still_there or not ticket.is_queued:
                    break
                ready = self._queue.ready_ns(ticket)
                until = min(ticket.expires_ns, ready if ready > now else NEVER)
                ticket.wake.wait(None if until == NEVER else (until - now) / 1e9)
            while ticket.state is TicketState.FOLLOWING:
                ticket.wake.wait()
            if ticket.error is not None:
                self._idle.notify_all()
                raise ticket.error
            return self._leading.pop(ticket) if ticket.state is TicketState.LEADING else None

    def _cancel(self, ticket: T) -> None:
        with self._lock:
            if ticket.is_queued:
                self._queue.remove(ticket)
                ticket.fail(ServingError(ErrorKind.CANCELLED, "the request has been cancelled"))
                self._dispatch(None)

    def _dispatch(self, current: T | None) -> None:
        """Hand free instances to batches that are ready. ``current`` leads the batch that it is part of."""
        while self._free and self._queue:
            batch = self._queue.take(self._clock())
            if not batch:
                return
            leader = current if current is not None and current in batch else batch[0]
            for ticket in batch:
                ticket.state = TicketState.FOLLOWING
            leader.state = TicketState.LEADING
            self._leading[leader] = self._start(leader, batch)
            if leader is not current and leader.wake is not None:
                leader.wake.notify()

    def _start(self, leader: T, batch: Sequence[T]) -> Sequence[T]:
        self._free -= 1
        leader.number = self._started
        self._started += 1
        return batch

    def _lead(self, leader: T, batch: Sequence[T]) -> None:
        try:
            self._run(batch)
        finally:
            with self._lock:
                self._free += 1
                if self._queue:
                    self._dispatch(None)
                if self._in_order:
                    while self._answered != leader.number:
                        self._turn.wait()
                    self._answered += 1
                    self._turn.notify_all()
                for ticket in batch:
                    if ticket is not leader and ticket.wake is not None:
                        ticket.state = TicketState.DONE
                        ticket.wake.notify()
                if self._closed:
                    self._idle.notify_all()
        if leader.error is not None:
            raise leader.error
