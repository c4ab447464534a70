"""Requests on their way through a model, and what became of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from nnhal.arrays import Array
from nnhal.types import NO_DEADLINE, Priority
from nnhal_service.runtime import PreparedPlan, RunReport
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.serving.planned import PlannedEdge
from nnhal_service.serving.priorities import Priorities
from nnhal_service.serving.queue import NEVER, Ticket
from nnhal_service.serving.request import InferenceRequest


class Ran(NamedTuple):
    """An execution that has succeeded, the same for all requests of its batch.

    It was by the plan ``prepared``. ``filled_bytes`` were copied into its memory; ``planned_copies`` are what devices
    copy, and ``planned_edges`` what passes, by plan.
    """

    prepared: PreparedPlan
    report: RunReport
    batch_size: int
    filled_bytes: int
    planned_copies: int
    planned_edges: tuple[PlannedEdge, ...]
    input_started_ns: int
    run_started_ns: int
    run_ended_ns: int


class Inference(Ticket):
    """A request as a ticket, and what came of it: its outputs and ``ran``, or an error.

    ``arrays`` are its inputs as they lie in memory; ``is_measured`` has the run report its steps. ``reached_device``
    says whether a device had to do with an error. ``run_deadline_ns`` is the HAL's deadline of its run, an instant of
    CLOCK_BOOTTIME: the request's own, and no later than its timeout.
    """

    __slots__ = ("arrays", "is_measured", "outputs", "ran", "reached_device", "release", "request", "run_deadline_ns")

    def __init__(
        self, request: InferenceRequest, arrays: Sequence[Array], size: int, key: Hashable, is_measured: bool = False
    ) -> None:
        deadline = NEVER
        if request.deadline_ns != NO_DEADLINE:
            deadline = time.monotonic_ns() + request.deadline_ns - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        super().__init__(size, key, request.priority, request.timeout_ns, deadline)
        self.request = request
        self.run_deadline_ns = request.deadline_ns
        if request.timeout_ns:
            timeout = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + request.timeout_ns
            self.run_deadline_ns = timeout if deadline == NEVER else min(request.deadline_ns, timeout)
        self.is_measured = is_measured
        self.arrays = arrays
        self.outputs: dict[str, Array] = {}
        self.ran: Ran | None = None
        self.release: Callable[[], None] | None = None
        self.reached_device = False


def deadline_of(batch: Sequence[Inference]) -> int:
    """The latest of a batch; NO_DEADLINE where one has none."""
    if len(batch) == 1:
        return batch[0].run_deadline_ns
    deadlines = [inference.run_deadline_ns for inference in batch]
    return NO_DEADLINE if NO_DEADLINE in deadlines else max(deadlines)


def priority_of(batch: Sequence[Inference], priorities: Priorities) -> Priority | None:
    """What a batch is to run with; None where it is the model's own priority."""
    if len(batch) == 1 and not batch[0].priority:
        return None
    return priorities.of([inference.priority for inference in batch])


def cancellation_of(batch: Sequence[Inference]) -> Cancellation:
    """Of a batch: it is given up when all of its requests are."""
    if len(batch) == 1:
        return batch[0].request.cancellation
    return _OfAll([inference.request.cancellation for inference in batch])


class _OfAll:
    """See Cancellation."""

    def __init__(self, cancellations: Sequence[Cancellation]) -> None:
        self._cancellations = cancellations
        self._lock = threading.Lock()
        self._watching: dict[Callable[[], None], Callable[[], None]] = {}

    @property
    def cancelled(self) -> bool:
        """See Cancellation."""
        return all(cancellation.cancelled for cancellation in self._cancellations)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """See Cancellation."""

        def look() -> None:
            if self.cancelled:
                callback()

        with self._lock:
            self._watching[callback] = look
        for cancellation in self._cancellations:
            cancellation.on_cancel(look)

    def forget(self, callback: Callable[[], None]) -> None:
        """See Cancellation."""
        with self._lock:
            look = self._watching.pop(callback, None)
        if look is not None:
            for cancellation in self._cancellations:
                cancellation.forget(look)
