"""The requests of one served model that wait and run, for an operator: listed only when somebody asks."""

from __future__ import annotations

import itertools
import threading
from typing import NamedTuple

from nnhal.clock import boottime_shift
from nnhal.types import Priority
from nnhal_service.serving.config import Priorities
from nnhal_service.serving.queue.batch import QueuedRequest

_numbers = itertools.count(1)


class LiveRequest(NamedTuple):
    """A request that waits or runs. Instants are of CLOCK_BOOTTIME."""

    number: int
    """Names it among the requests of its process."""
    model: str
    version: str
    client: str
    """Who asked for it; empty if that is unknown."""
    request_id: str
    """The id that the client gave it, empty if none."""
    since_ns: int
    """When it arrived."""
    deadline_ns: int
    """NO_DEADLINE if it has none."""
    priority: Priority
    """With which it runs."""
    is_running: bool
    """True if it has left the queue."""


class LiveRequests:
    """The event loop adds and discards ``requests``; any thread may list and cancel them."""

    def __init__(self, model: str, version: str, priorities: Priorities, own: Priority) -> None:
        """``own`` is the priority that the model was prepared with."""
        self.requests: set[QueuedRequest] = set()
        self._model = model
        self._version = version
        self._priorities = priorities
        self._own = own
        self._naming = threading.Lock()

    @property
    def oldest_ns(self) -> int:
        """Arrival of the request that has been here longest, by CLOCK_MONOTONIC; 0 if there is none."""
        return min(map(_arrived, _copy(self.requests)), default=0)

    def list(self) -> list[LiveRequest]:
        """Return them, those that arrived first first."""
        shift = boottime_shift()
        with self._naming:
            return sorted((self._described(queued, shift) for queued in _copy(self.requests)), key=_since)

    def cancel(self, number: int) -> bool | None:
        """Cancel a request, and return whether it was waiting still: then it leaves the queue, and does not run.

        None if there is no such request.
        """
        for queued in _copy(self.requests):
            if queued.number == number:
                is_queued = queued.is_queued
                queued.request.cancellation.cancel()
                return is_queued
        return None

    def cancel_all(self) -> None:
        for queued in _copy(self.requests):
            queued.request.cancellation.cancel()

    def _described(self, queued: QueuedRequest, shift: int) -> LiveRequest:
        if not queued.number:
            queued.number = next(_numbers)
        request = queued.request
        return LiveRequest(
            queued.number,
            self._model,
            self._version,
            queued.client,
            request.id,
            _arrived(queued) + shift,
            queued.run_deadline_ns,
            self._priorities.of([request.priority]) or self._own,
            not queued.is_queued,
        )


def _copy(requests: set[QueuedRequest]) -> list[QueuedRequest]:
    """The requests at this moment: one step of the interpreter, so that the loop needs no lock to change them."""
    return list(requests)


def _arrived(queued: QueuedRequest) -> int:
    return queued.request.arrived_ns or queued.queued_ns


def _since(live: LiveRequest) -> int:
    return live.since_ns
