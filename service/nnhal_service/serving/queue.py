"""Requests that wait for an instance: by priority, and first come first served among equals.

Priorities are strict, as Triton's: one level is served while all higher ones are empty. A request that has waited too
long is rejected, or served after those of its level that have not, as the level's policy says.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Iterator
from enum import Enum
from typing import Generic, TypeVar

from nnhal_service.serving.config import Batching, QueuePolicy, ServingConfig, TimeoutAction
from nnhal_service.serving.errors import ErrorKind, ServingError

NEVER = 2**63 - 1
"""An instant that does not come."""


class TicketState(Enum):
    """What becomes of a ticket."""

    QUEUED = 1
    LEADING = 2
    """Its thread runs the batch that it is part of."""
    FOLLOWING = 3
    """Another's does."""
    DONE = 4


class Ticket:
    """A request on its way through a queue.

    ``size`` is what it adds to a batch, and ``key`` what is the same for all of one batch. ``deadline_ns`` is an
    instant of the queue's clock, ``timeout_ns`` a time, 0 for the queue's own. ``error`` says why it did not run, or
    how it failed.
    """

    __slots__ = (
        "deadline_ns",
        "error",
        "key",
        "number",
        "priority",
        "queued_ns",
        "size",
        "state",
        "timeout_ns",
        "times_out_ns",
        "wake",
    )

    def __init__(
        self, size: int = 1, key: Hashable = None, priority: int = 0, timeout_ns: int = 0, deadline_ns: int = NEVER
    ) -> None:
        self.size = size
        self.key = key
        self.priority = priority
        self.timeout_ns = timeout_ns
        self.deadline_ns = deadline_ns
        self.times_out_ns = NEVER
        self.queued_ns = 0
        self.state = TicketState.QUEUED
        self.error: ServingError | None = None
        self.wake: threading.Condition | None = None
        self.number = 0

    @property
    def is_queued(self) -> bool:
        """Whether it still waits."""
        return self.state is TicketState.QUEUED

    @property
    def expires_ns(self) -> int:
        """When it will have waited too long."""
        return min(self.deadline_ns, self.times_out_ns)

    def fail(self, error: ServingError) -> None:
        """It will not run. Under the lock of its condition."""
        self.error = error
        self.state = TicketState.DONE
        if self.wake is not None:
            self.wake.notify()


T = TypeVar("T", bound=Ticket)


class _Level(Generic[T]):
    """One priority: those in time, and those that are served after them."""

    def __init__(self, policy: QueuePolicy) -> None:
        self.policy = policy
        self.fresh: deque[T] = deque()
        self.delayed: deque[T] = deque()

    def __len__(self) -> int:
        return len(self.fresh) + len(self.delayed)

    def times_out_ns(self, ticket: T, now_ns: int) -> int:
        """When a ticket will have waited too long. It may shorten the policy's own time, where that says so."""
        timeout = self.policy.default_timeout_ns
        if self.policy.allow_timeout_override and ticket.timeout_ns > 0 and not 0 < timeout < ticket.timeout_ns:
            timeout = ticket.timeout_ns
        return now_ns + timeout if timeout else NEVER


class RequestQueue(Generic[T]):
    """Not safe to use from several threads; see Batcher."""

    def __init__(self, config: ServingConfig) -> None:
        levels = range(1, config.priority_levels + 1) if config.priority_levels else range(1)
        self._levels: dict[int, _Level[T]] = {
            level: _Level(config.priority_queues.get(level, config.queue)) for level in levels
        }
        self._default = config.default_level
        self._batching = config.batching
        self._max_batch_size = config.max_batch_size if config.batching is not None else 0
        self._length = 0
        self.drains = False
        """Whether nobody waits for others any more."""

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        """In the order in which they are served."""
        for level in self._levels.values():
            yield from level.fresh
            yield from level.delayed

    def waits_for_others(self, ticket: T) -> bool:
        """Whether a ticket that is alone should wait a while before it runs."""
        batching = self._batching
        if batching is None or self.drains or not batching.max_queue_delay_ns:
            return False
        return ticket.size < self._max_batch_size and ticket.size not in batching.preferred_batch_sizes

    def put(self, ticket: T, now_ns: int) -> None:
        """Add a ticket. Raises UNAVAILABLE where the queue of its priority is full."""
        level = self._levels[self._level_of(ticket)]
        if 0 < level.policy.max_queue_size <= len(level):
            raise ServingError(ErrorKind.UNAVAILABLE, "Exceeds maximum queue size")
        ticket.queued_ns = now_ns
        ticket.times_out_ns = level.times_out_ns(ticket, now_ns)
        level.fresh.append(ticket)
        self._length += 1

    def remove(self, ticket: T) -> None:
        """Take a ticket out that is there."""
        level = self._levels[self._level_of(ticket)]
        (level.fresh if ticket in level.fresh else level.delayed).remove(ticket)
        self._length -= 1

    def expire(self, ticket: T, now_ns: int) -> bool:
        """Fail or delay a ticket that has waited too long. Whether it is still there."""
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
        ticket.times_out_ns = NEVER
        level.delayed.append(ticket)
        self._length += 1
        return True

    def ready_ns(self, ticket: T) -> int:
        """When a ticket has waited for others long enough."""
        return ticket.queued_ns + (self._batching.max_queue_delay_ns if self._batching is not None else 0)

    def take(self, now_ns: int) -> list[T]:
        """The next batch, taken out; empty where there is none, or where it should wait for others."""
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
        """Whether one of a batch has waited long enough, or cannot wait as long."""
        if self.drains or not batching.max_queue_delay_ns:
            return True
        return any(now_ns >= self.ready_ns(ticket) or ticket.expires_ns <= self.ready_ns(ticket) for ticket in batch)

    def _level_of(self, ticket: T) -> int:
        return ticket.priority if ticket.priority in self._levels else self._default
