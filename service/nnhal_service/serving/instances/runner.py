"""Running batches of requests on instances: from the event loop if one message asks the devices, else in a thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from operator import attrgetter

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import HalError, NnhalError, without_frames
from nnhal.extensions.values import PADDING_BYTES, padded, value_to_bytes
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime import OutputTooSmallError, RunReport, StateLostError, TouchedMemoryError
from nnhal_service.runtime.run.cancellation import require_wanted
from nnhal_service.runtime.run.deadlines import StillRunningError, seconds_to_wait, still_running
from nnhal_service.serving.config import Priorities
from nnhal_service.serving.errors import serving_error
from nnhal_service.serving.instances.bindable_model import InstanceRun
from nnhal_service.serving.instances.in_place import NO_PLACES, InPlaceUse, Places
from nnhal_service.serving.instances.instance import AnswerWatch, Instance
from nnhal_service.serving.instances.instance_pool import InstancePool
from nnhal_service.serving.instances.outputs import OutputShares
from nnhal_service.serving.loop import MOST_BYTES_IN_LOOP, ServingLoop
from nnhal_service.serving.queue.batch import Batch, BatchRelease, BatchRun, QueuedRequest
from nnhal_service.serving.queue.request_queue import NEVER
from nnhal_service.serving.requests.client_memory import PlacedTensor, TensorData, bytes_of, to_array
from nnhal_service.serving.requests.signature import ModelSignature

Ended = Callable[[], None]
_LEAST_VALUE_BYTES = 256
_SHARED_FAILURES = frozenset({ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT})
"""Failures that would be the same if each request of a batch ran alone."""
_shape_of = attrgetter("shape")
_is_live = attrgetter("is_live")
_log = get_logger(__name__)


class RequestRunner:
    """Runs batches of one model; only the loop starts them.

    If an idle instance fits a batch, and its run is one exchange with a device, nothing of it waits: the inputs are
    copied, the device is told, and the loop finishes the run when the answer can be read. Otherwise a thread runs the
    batch. So it is with large tensors, with instances that must be made first, with plans of several steps that cannot
    be told at once, and after a failure, when another device may take over.
    """

    def __init__(
        self,
        name: str,
        signature: ModelSignature,
        instances: InstancePool,
        placing: InPlaceUse,
        priorities: Priorities,
        executed: Callable[[BatchRun, int], None],
        loop: ServingLoop,
    ) -> None:
        """``executed`` is called after each run, with the nanoseconds that its outputs took."""
        self._name = name
        self._inputs = signature.inputs
        self._has_values = any(served.is_value for served in signature.inputs)
        self._outputs = OutputShares(signature)
        self._instances = instances
        self._placing = placing
        self._priorities = priorities
        self._executed = executed
        self._loop = loop

    def start(self, requests: Sequence[QueuedRequest], ended: Ended) -> None:
        """Run a batch and leave its result, or an error, in each request; then call ``ended``, in the loop."""
        live = requests
        for queued in requests:
            if queued.deadline_ns != NEVER or queued.request.cancellation.cancelled:
                live = list(filter(_is_live, requests))
                break
        if not live:
            ended()
            return
        try:
            in_thread = self._start(live, ended)
        except Exception as error:
            self._failed(live, error, ended)
            return
        if in_thread is not None:
            self._in_thread(live, in_thread, ended)

    def _start(self, live: Sequence[QueuedRequest], ended: Ended) -> Callable[[], None] | None:
        """Start a run in the loop; if it must be in a thread, what to do there."""
        copied = 0
        for queued in live:
            copied += queued.copied_bytes
            if queued.is_placed and len(live) > 1:
                return partial(self._run, live)  # which copies their tensors
        if copied > MOST_BYTES_IN_LOOP:
            return partial(self._run, live)
        places = NO_PLACES
        if len(live) == 1 and not self._has_values:
            arrays = live[0].arrays
            batch = Batch(live, list(zip(arrays)), tuple(map(_shape_of, arrays)), self._priorities)
        else:
            batch = self._batch_of(live)
        if batch.is_placed:
            if not self._placing.knows(batch.shapes):
                return partial(self._run, live)
            places = self._places_of(batch)
        instance = self._instances.idle(batch.shapes, batch.measure, batch.priority, places)
        if instance is None:
            return partial(self._run, live)
        try:
            _copy_inputs(batch, instance)
            started = instance.start(batch.deadline_ns, batch.cancellation)
        except BaseException:
            self._instances.give_back(instance, failed=True)
            raise
        if started is None:
            return partial(self._run_on, batch, instance)
        watch = instance.watch
        if watch is None or watch.exchange is not started.exchange:
            try:
                if watch is not None:
                    watch.close()
                watch = instance.watch = AnswerWatch(self._loop, started.exchange)
            except OSError:  # no descriptor is left: a thread waits for the answer
                return partial(self._finish_in_thread, batch, instance, started)
        watch.answered = partial(self._finish, batch, instance, started, ended)
        if batch.deadline_ns != NO_DEADLINE:
            late = partial(self._give_up, batch, instance, started, ended)
            watch.wait_at_most(seconds_to_wait(batch.deadline_ns), late)
        return None

    def _finish(self, batch: Batch, instance: Instance, started: InstanceRun, ended: Ended) -> None:
        """Take the answer to a run, which has come."""
        try:
            try:
                report = started.finish()
            except BaseException:
                self._instances.give_back(instance, failed=True)
                raise
            if report is None:
                self._in_thread(batch.requests, partial(self._run_on, batch, instance, started), ended)
                return
            now = time.monotonic_ns()
            if self._outputs.converts and instance.output_bytes > MOST_BYTES_IN_LOOP:
                self._in_thread(batch.requests, partial(self._complete, batch, instance, report, now), ended)
                return
            self._complete(batch, instance, report, now)
        except Exception as error:
            self._failed(batch.requests, error, ended)
            return
        ended()

    def _give_up(self, batch: Batch, instance: Instance, started: InstanceRun, ended: Ended) -> None:
        """Answer the requests of a run that has not ended by its deadline, and let a thread wait for its end."""
        instance.abandon()
        self._loop.wait_for(partial(_let_end, started), copy_context())
        self._fail(batch.requests, still_running())
        ended()

    def _finish_in_thread(self, batch: Batch, instance: Instance, started: InstanceRun) -> None:
        try:
            report = started.finish()
        except BaseException:
            self._instances.give_back(instance, failed=True)
            raise
        if report is None:
            self._run_on(batch, instance, started)
        else:
            self._complete(batch, instance, report, time.monotonic_ns())

    def _in_thread(self, requests: Sequence[QueuedRequest], work: Callable[[], None], ended: Ended) -> None:
        def run() -> None:
            try:
                work()
            except Exception as error:
                self._run_alone_or_fail(requests, error)
            self._loop.call(ended)

        self._loop.wait_for(run, requests[0].context)

    def _failed(self, requests: Sequence[QueuedRequest], error: Exception, ended: Ended) -> None:
        if _may_run_alone(requests, error):
            self._in_thread(requests, partial(self._run_alone_or_fail, requests, error), ended)
        else:
            self._fail(requests, error)
            ended()

    def _run(self, requests: Sequence[QueuedRequest]) -> None:
        """Run a batch and wait for it. If it fails, its requests run alone."""
        live = list(filter(_is_live, requests))
        if len(live) > 1:
            live = [queued for queued in live if queued.copy_in()]
        if not live:
            return
        try:
            batch = self._batch_of(live)
            instance = self._instances.take(
                batch.shapes, batch.measure, batch.priority, batch.deadline_ns, self._places_of(batch)
            )
            self._fill(batch, instance)
            self._run_on(batch, instance)
        except Exception as error:
            self._run_alone_or_fail(live, error)

    def _batch_of(self, live: Sequence[QueuedRequest]) -> Batch:
        """The batch of these requests, which begins now."""
        columns: list[Sequence[TensorData]] = []
        for index, served in enumerate(self._inputs):
            parts = [queued.arrays[index] for queued in live]
            columns.append([_encoded([to_array(part) for part in parts])] if served.is_value else parts)
        return Batch(live, columns, tuple([_joined_shape(parts) for parts in columns]), self._priorities)

    def _places_of(self, batch: Batch) -> Places:
        """Return where the tensors of a batch lie in memory of its client; nowhere if it has several."""
        if not batch.is_placed:
            return NO_PLACES
        inputs = tuple([part.place if isinstance(part, PlacedTensor) else None for part, *_ in batch.columns])
        return self._placing.places_of(inputs, batch.shapes, batch.requests[0].output_places)

    def _fill(self, batch: Batch, instance: Instance) -> None:
        """Copy the inputs into an instance's memory. Gives it back if that fails."""
        try:
            _copy_inputs(batch, instance)
        except BaseException:
            self._instances.give_back(instance)
            raise

    def _run_on(self, batch: Batch, instance: Instance, failed: InstanceRun | None = None) -> None:
        """Run a batch on an instance with its inputs; or recover the run that was started there, and has ``failed``.

        Raises as the run does; the instance is given back.
        """
        try:
            while True:
                try:
                    if failed is not None:
                        report = instance.recover(failed, batch.deadline_ns)
                    else:
                        report = instance.run(batch.deadline_ns, batch.cancellation)
                    break
                except OutputTooSmallError as error:
                    require_wanted(batch.cancellation)
                    instance = self._instances.replace(instance, error, batch.deadline_ns)
                except TouchedMemoryError:
                    require_wanted(batch.cancellation)
                    if instance.places.all:  # what a client gave cannot be replaced
                        raise
                    instance = self._instances.renew(instance, batch.deadline_ns)
                failed = None
                _copy_inputs(batch, instance)
        except StillRunningError:
            instance.abandon()
            raise
        except BaseException:
            self._instances.give_back(instance, failed=True)
            raise
        self._complete(batch, instance, report, time.monotonic_ns())

    def _complete(self, batch: Batch, instance: Instance, report: RunReport, ended_ns: int) -> None:
        """Give each request of a batch that has run its result. Raises if the outputs are not what they should be."""
        if report.outputs or report.fell_back:
            instance.note(report)
        requests, give_back = batch.requests, partial(self._instances.give_back, instance, use=instance.uses)
        shown = instance.shown.get(tuple(requests[0].request.outputs)) if len(requests) == 1 else None
        if shown is not None:
            requests[0].outputs, handed_bytes = shown, shown.handed_bytes
        else:
            try:
                self._outputs.hand_out(batch, instance)
            except BaseException:
                give_back()
                raise
            handed_bytes = 0
            for queued in requests:
                handed_bytes += bytes_of(queued.outputs.values())
        account = instance.account(report, handed_bytes)
        run = BatchRun(account, report, batch.size, batch.started_ns, batch.filled_ns, ended_ns)
        if len(requests) == 1:
            requests[0].run, requests[0].release = run, give_back
        else:
            release = BatchRelease(give_back, len(requests))
            for queued in requests:
                queued.run, queued.release = run, release.of_each()
        self._executed(run, time.monotonic_ns() - ended_ns)

    def _run_alone_or_fail(self, requests: Sequence[QueuedRequest], error: Exception) -> None:
        """After a failure of a batch: run each request alone, on our own memory, if that may help; else leave an error
        in each.
        """
        if _may_run_alone(requests, error):
            for request in requests:
                if request.copy_in():
                    self._run([request])
        else:
            self._fail(requests, error)

    def _fail(self, requests: Sequence[QueuedRequest], error: Exception) -> None:
        if not isinstance(error, NnhalError | OSError | MemoryError):
            _log.error("a run failed", model=self._name, exc_info=error)
        # The frames hold the instance and the batch: the cycle would keep both alive until the next garbage collection.
        cause = without_frames(error)
        for queued in requests:
            queued.reached_device = True
            # Each request has an error of its own: it is raised where the request is awaited.
            queued.error = serving_error(self._name, cause)
            queued.error.__cause__ = cause


def _copy_inputs(batch: Batch, instance: Instance) -> None:
    """Copy the inputs of a batch into an instance's memory. Raises INVALID_ARGUMENT if a client's memory has shrunk."""
    for view, parts in zip(instance.inputs, batch.columns, strict=True):
        if view is None:
            continue
        if len(parts) == 1:
            alone = parts[0]
            view[...] = alone.read() if isinstance(alone, PlacedTensor) else alone
            continue
        start = 0
        for part in parts:
            view[start : start + len(part)] = to_array(part)
            start += len(part)
    batch.filled_ns = time.monotonic_ns()


def _may_run_alone(requests: Sequence[QueuedRequest], error: Exception) -> bool:
    """Return whether requests whose batch failed may succeed if each runs alone, on our own memory."""
    if not isinstance(error, HalError) or error.status in _SHARED_FAILURES or isinstance(error, StateLostError):
        return False
    return len(requests) > 1 or requests[0].is_placed


def _joined_shape(parts: Sequence[TensorData]) -> tuple[int, ...]:
    """The dimensions of an input whose parts follow one another."""
    first = parts[0]
    return first.shape if len(parts) == 1 else (sum(map(len, parts)), *first.shape[1:])


def _encoded(parts: Sequence[Array]) -> Array:
    """Strings as a value, padded so that values of similar size can use the same memory."""
    encoded = value_to_bytes(parts[0] if len(parts) == 1 else np.concatenate(parts))
    size = max(_LEAST_VALUE_BYTES, 1 << (len(encoded) + PADDING_BYTES - 1).bit_length())
    return np.frombuffer(padded(encoded, size), np.uint8)


def _let_end(started: InstanceRun) -> None:
    """Wait for a run whose requests have been answered; its end releases the instance."""
    if started.finish() is None:
        started.drop()
