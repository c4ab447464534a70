"""Order in which requests run: requests take free instances, or wait for one, alone or joined into batches.

All of it happens in the event loop. A request that finds a free instance begins to run at once. The others wait in the
queue. A batch that ends hands its instance to the next one before anything else happens, so that no batch is overtaken.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.serving.config import ServingConfig
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.serving.queue.request_queue import NEVER, RequestQueue, Ticket, TicketState

T = TypeVar("T", bound=Ticket)
Start = Callable[[Sequence[T], Callable[[], None]], None]


class Batcher(Generic[T]):
    """Runs tickets. Only the event loop uses it, but any thread may ask how many tickets wait."""

    def __init__(
        self,
        config: ServingConfig,
        start: Start[T],
        loop: ServingLoop,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """``start`` starts a batch and returns; it calls back, in the loop, when the batch has ended, and must not
        raise. Up to ``config.instances`` batches run at a time.
        """
        self._start_batch = start
        self._loop = loop
        self._clock = clock
        self._queue: RequestQueue[T] = RequestQueue(config)
        self._instances = config.instances
        self._free = config.instances
        self._closed = False
        self._idle = asyncio.Event()
        self._has_batches = config.batching is not None
        self._in_order = config.batching is not None and config.batching.preserve_ordering
        self._started = 0
        self._answered = 0
        self._ended_early: dict[int, Sequence[T]] = {}
        self._is_dispatching = False

    @property
    def pending(self) -> int:
        return self._queue.length

    async def submit(self, ticket: T, cancellation: Cancellation) -> None:
        """Run a ticket, and return when it has run. A task that is cancelled meanwhile cancels the ticket, and goes on
        waiting: what runs uses the memory of its request.

        Raises ServingError if it does not run, or fails, and CancelledError after its end if the task was cancelled.
        """
        if self._closed:
            raise ServingError(ErrorKind.UNAVAILABLE, "the model is being unloaded")
        now = self._clock()
        cancel: Callable[[], None] | None = None
        if self._free and not self._queue.length and not (self._has_batches and self._queue.waits_for_others(ticket)):
            ticket.queued_ns = now
            self._start([ticket])
        else:
            self._queue.put(ticket, now)
            self._dispatch()
            self._watch(ticket, now)
            cancel = partial(self._loop.call, partial(self._cancel, ticket))
            cancellation.on_cancel(cancel)
        cancelled: asyncio.CancelledError | None = None
        try:
            while ticket.state is not TicketState.DONE:
                ticket.waiter = self._loop.asyncio.create_future()
                try:
                    await ticket.waiter
                except asyncio.CancelledError as error:
                    cancelled = error
                    cancellation.cancel()
            if cancelled is not None:
                raise cancelled
        finally:
            del cancelled  # it holds this frame
            if cancel is not None:
                cancellation.forget(cancel)
        if ticket.error is not None:
            raise ticket.error

    def drain(self, drain: bool) -> None:
        """Have batches wait for no more requests, or wait for them again."""
        if not self._closed:
            self._queue.drains = drain
            self._dispatch()

    async def close(self) -> None:
        """Refuse new tickets, and return when all others have run; harmless when repeated."""
        self._closed = True
        self._queue.drains = True
        self._dispatch()
        self._note_idle()
        await self._idle.wait()

    def _watch(self, ticket: T, now: int) -> None:
        """Look at a ticket again when it expires, or has waited for others long enough, unless it has by ``now``: an
        instant from before the last dispatch, which may have missed what became due since then.
        """
        if not ticket.is_queued:
            return
        ready = self._queue.ready_ns(ticket)
        until = min(ticket.expires_ns, ready if ready > now else NEVER)
        if until != NEVER:
            # The loop's timers count whole milliseconds: a shorter wait than half of one is spent looking.
            ticket.timer = self._loop.asyncio.call_later(max(0, until - now) / 1e9, self._look, ticket)

    def _look(self, ticket: T) -> None:
        if ticket.is_queued:
            now = self._clock()
            self._queue.expire(ticket, now)
            self._dispatch()
            self._watch(ticket, now)
            self._note_idle()

    def _cancel(self, ticket: T) -> None:
        if ticket.is_queued:
            self._queue.remove(ticket)
            ticket.fail(ServingError(ErrorKind.CANCELLED, "the request has been cancelled"))
            self._dispatch()
            self._note_idle()

    def _dispatch(self) -> None:
        """Hand free instances to batches that are ready."""
        if self._is_dispatching:  # a batch has ended while it was started
            return
        self._is_dispatching = True
        try:
            while self._free and self._queue.length and (batch := self._queue.take(self._clock())):
                self._start(batch)
        finally:
            self._is_dispatching = False

    def _start(self, batch: Sequence[T]) -> None:
        number = self._started
        self._started += 1
        self._free -= 1
        for ticket in batch:
            ticket.state = TicketState.RUNNING
            if ticket.timer is not None:
                ticket.leave_queue()
        (batch[0].start or self._start_batch)(batch, partial(self._end, batch, number))

    def _end(self, batch: Sequence[T], number: int) -> None:
        self._free += 1
        if self._queue.length:
            self._dispatch()
        if self._in_order:
            self._ended_early[number] = batch
            while (next_batch := self._ended_early.pop(self._answered, None)) is not None:
                self._answered += 1
                for ticket in next_batch:
                    ticket.end()
        else:
            for ticket in batch:
                ticket.state, waiter = TicketState.DONE, ticket.waiter
                if waiter is not None and not waiter.done():
                    waiter.set_result(None)
        if self._closed:
            self._note_idle()

    def _note_idle(self) -> None:
        if self._closed and not self._queue.length and self._free == self._instances:
            self._idle.set()
