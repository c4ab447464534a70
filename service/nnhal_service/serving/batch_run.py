"""Running a batch of requests on an instance, and giving each request its part of the outputs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from nnhal.arrays import Array
from nnhal.errors import HalError, NnhalError, general_failure
from nnhal.extensions.values import PADDING_BYTES, padded, strings_from_bytes, value_to_bytes
from nnhal.types import NO_DEADLINE, ErrorStatus, Priority
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime import OutputTooSmallError, PreparedPlan, RunReport
from nnhal_service.runtime.run.cancellation import Cancellation, require_wanted
from nnhal_service.runtime.run.deadlines import StillRunningError
from nnhal_service.serving.config import Priorities
from nnhal_service.serving.errors import ErrorKind, ServingError, serving_error
from nnhal_service.serving.instance import Instance, InstancePool
from nnhal_service.serving.placement import PlannedEdge
from nnhal_service.serving.queue import NEVER, Ticket
from nnhal_service.serving.request import InferenceRequest
from nnhal_service.serving.signature import ModelSignature

_LEAST_VALUE_BYTES = 256
_SHARED_FAILURES = frozenset({ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT})
"""Failures that would be the same if each request of a batch ran alone."""
_log = get_logger(__name__)


class BatchRun(NamedTuple):
    """A run that has succeeded, the same object for all requests of its batch."""

    prepared: PreparedPlan
    """The plan by which it ran."""
    report: RunReport
    batch_size: int
    filled_bytes: int
    """The bytes that were copied into the instance's memory."""
    planned_copies: int
    """The bytes that devices copy by the plan."""
    planned_edges: tuple[PlannedEdge, ...]
    input_started_ns: int
    run_started_ns: int
    run_ended_ns: int


class QueuedRequest(Ticket):
    """A request as the queue's ticket, and its result: outputs and a run, or the ticket's error."""

    __slots__ = ("arrays", "is_measured", "outputs", "reached_device", "release", "request", "run", "run_deadline_ns")

    def __init__(
        self, request: InferenceRequest, arrays: Sequence[Array], size: int, key: Hashable, is_measured: bool = False
    ) -> None:
        """``arrays`` are its inputs as they lie in memory; if ``is_measured``, the run reports its steps."""
        deadline = NEVER
        if request.deadline_ns != NO_DEADLINE:
            deadline = time.monotonic_ns() + request.deadline_ns - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        super().__init__(size, key, request.priority, request.timeout_ns, deadline)
        self.request = request
        self.run_deadline_ns = request.deadline_ns
        """The HAL's deadline of the run, an instant of CLOCK_BOOTTIME: the request's own, or its timeout if sooner."""
        if request.timeout_ns:
            timeout = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + request.timeout_ns
            self.run_deadline_ns = timeout if deadline == NEVER else min(request.deadline_ns, timeout)
        self.is_measured = is_measured
        self.arrays = arrays
        self.outputs: dict[str, Array] = {}
        self.run: BatchRun | None = None
        self.release: Callable[[], None] | None = None
        self.reached_device = False
        """Whether the error came from running it."""


class BatchRunner:
    """Runs batches of one model. Safe to use from several threads."""

    def __init__(
        self,
        name: str,
        signature: ModelSignature,
        instances: InstancePool,
        priorities: Priorities,
        executed: Callable[[BatchRun, int], None],
    ) -> None:
        """``executed`` is called after each run, with the nanoseconds that its outputs took."""
        self._name = name
        self._inputs = signature.inputs
        self._outputs = signature.outputs
        self._output_index = signature.output_index
        self._has_values = any(served.is_value for served in signature.inputs)
        self._instances = instances
        self._priorities = priorities
        self._executed = executed

    def run(self, batch: Sequence[QueuedRequest]) -> None:
        """Run a batch, and leave its result or an error in each request. If a batch fails, its requests run alone."""
        live = [request for request in batch if self._is_live(request)]
        if not live:
            return
        try:
            self._run(live)
        except Exception as error:
            if len(live) > 1 and isinstance(error, HalError) and error.status not in _SHARED_FAILURES:
                for request in live:
                    self.run([request])
                return
            if not isinstance(error, NnhalError | OSError | MemoryError):
                _log.error("a run failed", model=self._name, exc_info=error)
            # The frames of its traceback hold the instance and the batch: the cycle would keep both alive until the
            # next garbage collection.
            cause = error.with_traceback(None)
            for request in live:
                request.reached_device = True
                # Each request has an error of its own: it is raised in the request's thread.
                request.error = serving_error(self._name, cause)
                request.error.__cause__ = cause

    def _is_live(self, queued: QueuedRequest) -> bool:
        """Whether the client still waits for a request; if not, the request has its error."""
        if queued.request.cancellation.cancelled:
            queued.error = ServingError(ErrorKind.CANCELLED, "the request has been cancelled")
        elif queued.deadline_ns != NEVER and time.monotonic_ns() >= queued.deadline_ns:
            queued.error = ServingError(ErrorKind.DEADLINE_EXCEEDED, "Deadline exceeded before the request ran")
        return queued.error is None

    def _run(self, batch: Sequence[QueuedRequest]) -> None:
        started = time.monotonic_ns()
        columns = self._columns(batch)
        measure = any(queued.is_measured for queued in batch)
        deadline_ns, cancellation = deadline_of(batch), cancellation_of(batch)
        shapes = tuple([_shape(parts) for parts in columns])
        instance = self._instances.take(shapes, measure, priority_of(batch, self._priorities), deadline_ns)
        try:
            while True:
                _fill(instance, columns)
                running = time.monotonic_ns()
                try:
                    report = instance.run(deadline_ns, cancellation)
                    break
                except OutputTooSmallError as error:
                    require_wanted(cancellation)
                    instance = self._instances.replace(instance, error, deadline_ns)
            ended = time.monotonic_ns()
            self._hand_out(batch, instance)
        except StillRunningError:
            instance.abandon()
            raise
        except BaseException:
            self._instances.give_back(instance)
            raise
        run = BatchRun(
            instance.prepared,
            report,
            _size(batch),
            instance.filled_bytes,
            instance.planned_copies,
            instance.planned_edges,
            started,
            running,
            ended,
        )
        readers = _Readers(len(batch)) if len(batch) > 1 else None
        for queued in batch:
            queued.run = run
            queued.release = _Release(self._instances, instance, readers)
        self._executed(run, time.monotonic_ns() - ended)

    def _columns(self, batch: Sequence[QueuedRequest]) -> list[Sequence[Array]]:
        """The arrays that follow one another in each input."""
        if len(batch) == 1 and not self._has_values:
            return [(array,) for array in batch[0].arrays]
        columns: list[Sequence[Array]] = []
        for index, served in enumerate(self._inputs):
            parts = [queued.arrays[index] for queued in batch]
            columns.append([_encoded(parts)] if served.is_value else parts)
        return columns

    def _hand_out(self, batch: Sequence[QueuedRequest], instance: Instance) -> None:
        """Give each request its outputs. Raises GENERAL_FAILURE if an output has not the length of the batch."""
        requested = batch[0].request.outputs if len(batch) == 1 else ()
        whole = {name: self._output(name, instance) for name in requested or self._output_index}
        if len(batch) == 1:
            batch[0].outputs = whole
            return
        total, start = _size(batch), 0
        for name, array in whole.items():
            if not array.shape or len(array) != total:
                general_failure(f"output {name!r} has shape {list(array.shape)} for a batch of {total}")
        for queued in batch:
            end = start + queued.size
            queued.outputs = {name: whole[name][start:end] for name in queued.request.outputs or whole}
            start = end

    def _output(self, name: str, instance: Instance) -> Array:
        """An output in the model's own element type: a view if memory holds that type, else a copy."""
        index = self._output_index[name]
        served, stored = self._outputs[index], instance.output(index)
        if served.is_value:
            try:
                return strings_from_bytes(stored)
            except (ValueError, DecodeError):
                raise ServingError(ErrorKind.UNSUPPORTED, f"output '{name}' is not a tensor of strings") from None
        array = stored if stored.dtype == served.element_type else stored.astype(served.element_type)
        return array.reshape(()) if served.tensor.scalar else array


def deadline_of(batch: Sequence[QueuedRequest]) -> int:
    """The latest deadline of a batch; NO_DEADLINE if one request has none."""
    if len(batch) == 1:
        return batch[0].run_deadline_ns
    deadlines = [queued.run_deadline_ns for queued in batch]
    return NO_DEADLINE if NO_DEADLINE in deadlines else max(deadlines)


def priority_of(batch: Sequence[QueuedRequest], priorities: Priorities) -> Priority | None:
    """The priority with which a batch runs; None for the model's own."""
    if len(batch) == 1 and not batch[0].priority:
        return None
    return priorities.of([queued.priority for queued in batch])


def cancellation_of(batch: Sequence[QueuedRequest]) -> Cancellation:
    """The cancellation of a batch, which is cancelled once all of its requests are."""
    if len(batch) == 1:
        return batch[0].request.cancellation
    return _BatchCancellation([queued.request.cancellation for queued in batch])


class _BatchCancellation(Cancellation):
    """Watches the requests' own cancellations, and only while a callback is registered."""

    def __init__(self, requests: Sequence[Cancellation]) -> None:
        super().__init__()
        self._requests = requests
        self._watching: dict[Callable[[], None], Callable[[], None]] = {}

    @property
    def cancelled(self) -> bool:
        return all(request.cancelled for request in self._requests)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        def look() -> None:
            if self.cancelled:
                callback()

        with self._lock:
            self._watching[callback] = look
        for request in self._requests:
            request.on_cancel(look)

    def forget(self, callback: Callable[[], None]) -> None:
        with self._lock:
            look = self._watching.pop(callback, None)
        if look is not None:
            for request in self._requests:
                request.forget(look)


class _Readers:
    """Counts the requests of a batch whose outputs are still read."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()

    def leave(self) -> bool:
        """Whether that was the last one."""
        with self._lock:
            self._count -= 1
            return self._count == 0


class _Release:
    """Gives an instance back once every request of its batch has called its release; harmless when repeated."""

    __slots__ = ("_instance", "_instances", "_readers")

    def __init__(self, instances: InstancePool, instance: Instance, readers: _Readers | None) -> None:
        self._instances = instances
        self._instance: Instance | None = instance
        self._readers = readers

    def __call__(self) -> None:
        instance, self._instance = self._instance, None
        if instance is not None and (self._readers is None or self._readers.leave()):
            self._instances.give_back(instance)


def _size(batch: Sequence[QueuedRequest]) -> int:
    return batch[0].size if len(batch) == 1 else sum([queued.size for queued in batch])


def _shape(parts: Sequence[Array]) -> tuple[int, ...]:
    first = parts[0]
    return first.shape if len(parts) == 1 else (sum(map(len, parts)), *first.shape[1:])


def _fill(instance: Instance, columns: Sequence[Sequence[Array]]) -> None:
    """Copy the inputs into the instance's memory."""
    for view, parts in zip(instance.inputs, columns, strict=True):
        if len(parts) == 1:
            view[...] = parts[0]
            continue
        start = 0
        for part in parts:
            view[start : start + len(part)] = part
            start += len(part)


def _encoded(parts: Sequence[Array]) -> Array:
    """Strings as a value, padded so that values of similar size can use the same memory."""
    encoded = value_to_bytes(parts[0] if len(parts) == 1 else np.concatenate(parts))
    size = max(_LEAST_VALUE_BYTES, 1 << (len(encoded) + PADDING_BYTES - 1).bit_length())
    return np.frombuffer(padded(encoded, size), np.uint8)
