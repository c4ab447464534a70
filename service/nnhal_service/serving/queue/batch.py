"""Requests that run together: as they wait, what their run needs, and what comes of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextvars import copy_context
from typing import NamedTuple

from nnhal.types import NO_DEADLINE, Priority
from nnhal.types.layout import Dimensions
from nnhal_service.runtime import RunReport
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.serving.config import Priorities
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.queue.request_queue import NEVER, Ticket
from nnhal_service.serving.requests.client_memory import PlacedTensor, TensorData, to_array
from nnhal_service.serving.requests.planned_run import RunAccount
from nnhal_service.serving.requests.request import InferenceRequest


class BatchRun(NamedTuple):
    """A run that has succeeded, the same object for all requests of its batch."""

    account: RunAccount
    """What it did, and what was copied into the instance's memory, and by devices."""
    report: RunReport
    batch_size: int
    input_started_ns: int
    run_started_ns: int
    run_ended_ns: int


class QueuedRequest(Ticket):
    """A request as the queue's ticket, and its result: outputs and a run, or the ticket's error."""

    __slots__ = (
        "arrays",
        "client",
        "context",
        "copied_bytes",
        "is_measured",
        "is_placed",
        "number",
        "output_places",
        "outputs",
        "reached_device",
        "release",
        "request",
        "run",
        "run_deadline_ns",
    )

    def __init__(
        self,
        request: InferenceRequest,
        arrays: Sequence[TensorData],
        size: int,
        key: Hashable,
        is_measured: bool = False,
        client: str = "",
    ) -> None:
        """``arrays`` are its inputs as they lie in memory; if ``is_measured``, the run reports its steps. ``client`` is
        who asked for it.
        """
        deadline = NEVER
        if request.deadline_ns != NO_DEADLINE:
            deadline = time.monotonic_ns() + request.deadline_ns - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        super().__init__(size, key, request.priority, request.timeout_ns, deadline)
        self.request = request
        self.client = client
        self.number = 0
        """Names it when it is listed among those that wait and run; 0 until then."""
        self.run_deadline_ns = request.deadline_ns
        """The HAL's deadline of the run, an instant of CLOCK_BOOTTIME: the request's own, or its timeout if sooner."""
        if request.timeout_ns:
            timeout = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + request.timeout_ns
            self.run_deadline_ns = timeout if deadline == NEVER else min(request.deadline_ns, timeout)
        self.is_measured = is_measured
        self.arrays = arrays
        self.output_places = request.output_places
        """Where devices may leave its outputs."""
        self.is_placed = bool(request.output_places)
        """True if tensors of it lie in memory of its client."""
        self.copied_bytes = 0
        """The bytes of the others, which are copied for its run."""
        for tensor in arrays:
            if isinstance(tensor, PlacedTensor):
                self.is_placed = True
            else:
                self.copied_bytes += tensor.nbytes
        self.context = copy_context()
        """Names the request in the log, in whatever thread it runs."""
        self.outputs: Mapping[str, TensorData] = {}
        self.run: BatchRun | None = None
        self.release: Callable[[], None] | None = None
        self.reached_device = False
        """True if the error came from running it."""

    @property
    def latest_ns(self) -> int:
        """The instant of CLOCK_MONOTONIC by which it must have run: its deadline, or its timeout if that is sooner."""
        if self.timeout_ns:
            return min(self.deadline_ns, time.monotonic_ns() + self.timeout_ns)
        return self.deadline_ns

    def delay(self) -> None:
        super().delay()
        self.run_deadline_ns = self.request.deadline_ns

    def copy_in(self) -> bool:
        """Copy what lies in memory of its client, so that it can run on any memory; returns whether it can be read.

        If not, it has its error now.
        """
        self.output_places = {}
        try:
            for tensor in self.arrays:
                if isinstance(tensor, PlacedTensor):
                    self.request.copying(tensor.nbytes)
            self.arrays = [to_array(tensor) for tensor in self.arrays]
            self.is_placed = False
        except ServingError as error:
            self.error = error
        return self.error is None

    @property
    def is_live(self) -> bool:
        """Return whether the client still waits for it; if not, it has its error now."""
        if self.request.cancellation.cancelled:
            self.error = ServingError(ErrorKind.CANCELLED, "the request has been cancelled")
        elif self.deadline_ns != NEVER and time.monotonic_ns() >= self.deadline_ns:
            self.error = ServingError(ErrorKind.DEADLINE_EXCEEDED, "Deadline exceeded before the request ran")
        return self.error is None


StartBatch = Callable[[Sequence[QueuedRequest], Callable[[], None]], None]
"""Starts to run requests in the loop, and calls back there when they have their results."""


class Batch:
    """Requests that run together from now on, and how their run is to be."""

    __slots__ = (
        "cancellation",
        "columns",
        "deadline_ns",
        "filled_ns",
        "is_placed",
        "measure",
        "priority",
        "requests",
        "shapes",
        "size",
        "started_ns",
    )

    def __init__(
        self,
        requests: Sequence[QueuedRequest],
        columns: Sequence[Sequence[TensorData]],
        shapes: tuple[Dimensions, ...],
        priorities: Priorities,
    ) -> None:
        """``columns`` are the tensors that follow one another in each input, and ``shapes`` the dimensions of those."""
        self.requests = requests
        self.columns = columns
        self.shapes = shapes
        self.is_placed = False
        """True if tensors of it lie in memory of its only client."""
        self.cancellation: Cancellation
        """It is cancelled once all of its requests are."""
        self.measure: bool
        """True if its run is to report its steps."""
        self.priority: Priority | None = None
        """None for the model's own priority."""
        if len(requests) == 1:
            alone = requests[0]
            self.size, self.deadline_ns = alone.size, alone.run_deadline_ns
            self.measure, self.is_placed = alone.is_measured, alone.is_placed
            self.cancellation = alone.request.cancellation
            if alone.priority:
                self.priority = priorities.of([alone.priority])
        else:
            self.size, self.deadline_ns = sum([queued.size for queued in requests]), _deadline_of(requests)
            self.measure = any(queued.is_measured for queued in requests)
            self.cancellation = cancellation_of(requests)
            self.priority = priorities.of([queued.priority for queued in requests])
        self.started_ns = time.monotonic_ns()
        self.filled_ns = 0
        """The instant of CLOCK_MONOTONIC at which the inputs were in the memory of an instance."""


def cancellation_of(batch: Sequence[QueuedRequest]) -> Cancellation:
    """The cancellation of a batch, which is cancelled once all of its requests are."""
    if len(batch) == 1:
        return batch[0].request.cancellation
    return _BatchCancellation([queued.request.cancellation for queued in batch])


def _deadline_of(batch: Sequence[QueuedRequest]) -> int:
    """The latest deadline of a batch; NO_DEADLINE if one request has none."""
    deadlines = [queued.run_deadline_ns for queued in batch]
    return NO_DEADLINE if NO_DEADLINE in deadlines else max(deadlines)


class _BatchCancellation(Cancellation):
    """Cancelled with the last of the requests. It refers to none of them, which refer to it."""

    def __init__(self, requests: Sequence[Cancellation]) -> None:
        super().__init__()
        self._left = len(requests)
        for request in requests:
            request.on_cancel(self._one_less)

    def _one_less(self) -> None:
        with self._lock:
            self._left -= 1
            is_last = not self._left
        if is_last:
            self.cancel()


class Release:
    """Gives back what a request ran on, once: harmless when repeated."""

    __slots__ = ("_give_back",)

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back: Callable[[], None] | None = give_back

    def __call__(self) -> None:
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()


class BatchRelease:
    """Gives what a batch ran on back when each of its requests has called its own release, which ``of_each`` makes."""

    __slots__ = ("_give_back", "_left", "_lock")

    def __init__(self, give_back: Callable[[], None], count: int) -> None:
        self._give_back = give_back
        self._left = count
        self._lock = threading.Lock()

    def of_each(self) -> Callable[[], None]:
        """The release of one request; harmless when repeated."""
        return Release(self.leave)

    def leave(self) -> None:
        """One of the requests is done with its outputs."""
        with self._lock:
            self._left -= 1
            is_last = not self._left
        if is_last:
            self._give_back()
