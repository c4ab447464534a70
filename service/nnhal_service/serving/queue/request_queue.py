"""Requests that wait for an instance: by priority, and first come first served among equals.

Priorities are strict, as in Triton: a level is served only while all higher levels are empty. A request whose timeout
has passed is rejected, or served after the other requests of its level, according to the level's policy. If the policy
has no say in the request's own timeout, that is a deadline: the request fails when it has passed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from enum import Enum
from typing import Any, Generic, TypeVar

from nnhal_service.serving.config import Batching, QueuePolicy, ServingConfig, TimeoutAction
from nnhal_service.serving.errors import ErrorKind, ServingError

NEVER = 2**63 - 1
"""An instant that is never reached."""


class TicketState(Enum):
    """The states of a ticket, in their order."""

    QUEUED = 1
    RUNNING = 2
    DONE = 3


class Ticket:
    """A request's place in the queue, and its error if it did not run or failed."""

    __slots__ = (
        "deadline_ns",
        "error",
        "key",
        "priority",
        "queued_ns",
        "size",
        "start",
        "state",
        "timeout_ns",
        "timer",
        "times_out_ns",
        "waiter",
    )

    def __init__(
        self, size: int = 1, key: Hashable = None, priority: int = 0, timeout_ns: int = 0, deadline_ns: int = NEVER
    ) -> None:
        """``size`` is what it adds to a batch, whose tickets all have the same ``key``. ``timeout_ns`` 0 is for the
        queue's own timeout; ``deadline_ns`` is an instant of the queue's clock.
        """
        self.size = size
        self.key = key
        self.priority = priority
        self.timeout_ns = timeout_ns
        self.deadline_ns = deadline_ns
        self.times_out_ns = NEVER
        self.queued_ns = 0
        self.state = TicketState.QUEUED
        self.start: Callable[[Sequence[Any], Callable[[], None]], None] | None = None
        """What runs it in place of the batcher's own instances: its sequence; None for those."""
        self.error: ServingError | None = None
        self.waiter: asyncio.Future[None] | None = None
        """Has a result when the ticket is done; None while nobody waits for that."""
        self.timer: asyncio.TimerHandle | None = None
        """Looks at the ticket while it is queued."""

    def delay(self) -> None:
        """Note that it is served after its timeout, which no longer counts."""
        self.timeout_ns = 0
        self.times_out_ns = NEVER

    @property
    def is_queued(self) -> bool:
        """Return whether it still waits for an instance."""
        return self.state is TicketState.QUEUED

    @property
    def expires_ns(self) -> int:
        """The sooner of its deadline and its timeout."""
        return min(self.deadline_ns, self.times_out_ns)

    def leave_queue(self) -> None:
        """Note that it does not wait for an instance any more."""
        self.state = TicketState.RUNNING
        timer, self.timer = self.timer, None
        if timer is not None:
            timer.cancel()

    def end(self) -> None:
        """Note that it is done, and wake who waits for that."""
        self.state = TicketState.DONE
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def fail(self, error: ServingError) -> None:
        self.error = error
        self.leave_queue()
        self.end()


T = TypeVar("T", bound=Ticket)


class _Level(Generic[T]):
    """The tickets of one priority: those in time, and those that are served after them."""

    def __init__(self, policy: QueuePolicy) -> None:
        self.policy = policy
        self.fresh: deque[T] = deque()
        self.delayed: deque[T] = deque()

    def __len__(self) -> int:
        return len(self.fresh) + len(self.delayed)

    def times_out_ns(self, ticket: T, now_ns: int) -> int:
        """End of a ticket's timeout. Its own timeout counts if the policy allows that and has no shorter one."""
        timeout = self.policy.default_timeout_ns
        if self.policy.allow_timeout_override and ticket.timeout_ns > 0 and not 0 < timeout < ticket.timeout_ns:
            timeout = ticket.timeout_ns
        return now_ns + timeout if timeout else NEVER


class RequestQueue(Generic[T]):
    """The tickets that wait. Only the event loop uses it, but any thread may ask for its length."""

    def __init__(self, config: ServingConfig) -> None:
        levels = range(1, config.priority_levels + 1) if config.priority_levels else range(1)
        self._levels: dict[int, _Level[T]] = {
            level: _Level(config.priority_queues.get(level, config.queue)) for level in levels
        }
        self._default = config.default_level
        self._batching = config.batching
        self._max_batch_size = config.max_batch_size if config.batching is not None else 0
        self.length = 0
        """The tickets that wait."""
        self.drains = False
        """True if batches run at once, without waiting for more tickets."""

    def __iter__(self) -> Iterator[T]:
        """The tickets in the order in which they are served."""
        for level in self._levels.values():
            yield from level.fresh
            yield from level.delayed

    def waits_for_others(self, ticket: T) -> bool:
        """Return whether a ticket that is alone should wait for others to join its batch."""
        batching = self._batching
        if batching is None or self.drains or not batching.max_queue_delay_ns:
            return False
        return ticket.size < self._max_batch_size and ticket.size not in batching.preferred_batch_sizes

    def put(self, ticket: T, now_ns: int) -> None:
        """Add a ticket. Raises UNAVAILABLE if the queue of its priority is full."""
        level = self._levels[self._level_of(ticket)]
        if 0 < level.policy.max_queue_size <= len(level):
            raise ServingError(ErrorKind.UNAVAILABLE, "Exceeds maximum queue size")
        ticket.queued_ns = now_ns
        ticket.times_out_ns = level.times_out_ns(ticket, now_ns)
        if ticket.timeout_ns > 0 and not level.policy.allow_timeout_override:
            ticket.deadline_ns = min(ticket.deadline_ns, now_ns + ticket.timeout_ns)
        level.fresh.append(ticket)
        self.length += 1

    def remove(self, ticket: T) -> None:
        """Remove a ticket, which must be in the queue."""
        level = self._levels[self._level_of(ticket)]
        (level.fresh if ticket in level.fresh else level.delayed).remove(ticket)
        self.length -= 1

    def expire(self, ticket: T, now_ns: int) -> bool:
        """Fail or delay a ticket that has waited too long, and return whether it still waits."""
        if now_ns >= ticket.deadline_ns:
            self.remove(ticket)
            ticket.fail(ServingError(ErrorKind.DEADLINE_EXCEEDED, "Deadline exceeded while the request was queued"))
            return False
        if now_ns < ticket.times_out_ns:
            return True
        self.remove(ticket)
        level = self._levels[self._level_of(ticket)]
        if level.policy.timeout_action is TimeoutAction.REJECT:
            ticket.fail(ServingError(ErrorKind.UNAVAILABLE, "Request timeout expired"))
            return False
        ticket.delay()
        level.delayed.append(ticket)
        self.length += 1
        return True

    def ready_ns(self, ticket: T) -> int:
        """End of a ticket's wait for others."""
        return ticket.queued_ns + (self._batching.max_queue_delay_ns if self._batching is not None else 0)

    def take(self, now_ns: int) -> list[T]:
        """Remove and return the next batch; empty if nothing waits, or if the batch should wait for more tickets."""
        batch = self._batch(now_ns)
        while late := [ticket for ticket in batch if now_ns >= ticket.expires_ns]:
            for ticket in late:
                self.expire(ticket, now_ns)
            batch = self._batch(now_ns)
        for ticket in batch:
            self.remove(ticket)
        return batch

    def _batch(self, now_ns: int) -> list[T]:
        tickets = iter(self)
        batch = [head] if (head := next(tickets, None)) is not None else []
        if not batch or self._batching is None:
            return batch
        preferred, total, grows = 0, batch[0].size, True
        for ticket in tickets:
            preferred = len(batch) if total in self._batching.preferred_batch_sizes else preferred
            if ticket.key != batch[0].key or total + ticket.size > self._max_batch_size:
                grows = False
                break
            batch.append(ticket)
            total += ticket.size
        preferred = len(batch) if total in self._batching.preferred_batch_sizes else preferred
        if preferred:
            return batch[:preferred]
        if not grows or total >= self._max_batch_size or self._is_due(batch, self._batching, now_ns):
            return batch
        return []

    def _is_due(self, batch: list[T], batching: Batching, now_ns: int) -> bool:
        """Return whether a ticket of the batch has waited long enough, or would expire before that."""
        if self.drains or not batching.max_queue_delay_ns:
            return True
        return any(now_ns >= self.ready_ns(ticket) or ticket.expires_ns <= self.ready_ns(ticket) for ticket in batch)

    def _level_of(self, ticket: T) -> int:
        return ticket.priority if ticket.priority in self._levels else self._default
