"""Running batches from the event loop: there if the devices are asked by one message, else in a thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from functools import partial

from nnhal.types import NO_DEADLINE
from nnhal_service.runtime import RunReport
from nnhal_service.runtime.run.deadlines import seconds_to_wait, still_running
from nnhal_service.serving.instances.batch_runner import BatchRunner, FilledInstance, may_run_alone, shapes_of
from nnhal_service.serving.instances.bindable_model import InstanceRun
from nnhal_service.serving.instances.instance import AnswerWatch
from nnhal_service.serving.instances.instance_pool import InstancePool
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.serving.queue.batch import Batch, QueuedRequest
from nnhal_service.serving.requests.client_memory import PlacedTensor, TensorData

Ended = Callable[[], None]
MOST_BYTES_IN_LOOP = 1 << 18
"""The bytes that may be copied in the loop, which takes some 10 us. A thread must be woken, and wake the loop: 20 us at
the least, and three times for a request.
"""


class LoopRunner:
    """Runs batches of one model. Only the loop uses it.

    If an idle instance fits a batch, and its run is one exchange with a device, nothing of it waits: the inputs are
    copied, the device is told, and the loop finishes the run when the answer can be read. Otherwise a thread runs the
    batch. So it is with large tensors, with instances that must be made first, with plans of several steps that cannot
    be told at once, and after a failure, when another device may take over.
    """

    def __init__(self, runner: BatchRunner, instances: InstancePool, loop: ServingLoop) -> None:
        self._runner = runner
        self._instances = instances
        self._loop = loop

    def start(self, requests: Sequence[QueuedRequest], ended: Ended) -> None:
        """Run a batch and leave its result, or an error, in each request; then call ``ended``, in the loop."""
        live = [queued for queued in requests if queued.is_live]
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
        runner = self._runner
        if len(live) > 1 and any(queued.is_placed for queued in live):
            return partial(runner.run, live)  # which copies their tensors
        if sum([bytes_of(queued.arrays) for queued in live]) > MOST_BYTES_IN_LOOP:
            return partial(runner.run, live)
        batch = runner.batch_of(live)
        columns = runner.columns_of(batch)
        if not runner.knows_places(batch, columns):
            return partial(runner.run, live)
        places = runner.places_of(batch, columns)
        instance = self._instances.idle(shapes_of(columns), batch.measure, batch.priority, places)
        if instance is None:
            return partial(runner.run, live)
        filled = runner.filled(instance, columns)
        try:
            started = instance.start(batch.deadline_ns, batch.cancellation)
        except BaseException:
            self._instances.give_back(instance, failed=True)
            raise
        if started is None:
            return partial(runner.run_on, batch, filled)
        try:
            watch = instance.watch
            if watch is None or not watch.is_for(started):
                if watch is not None:
                    watch.close()
                watch = instance.watch = AnswerWatch(self._loop, started)
        except OSError:  # no descriptor is left: a thread waits for the answer
            return partial(self._finish_in_thread, batch, filled, started)
        _InFlight(self, batch, filled, started, watch, ended)
        return None

    def finish(self, batch: Batch, filled: FilledInstance, started: InstanceRun, ended: Ended) -> None:
        """Take the answer to a run, which has come."""
        runner = self._runner
        try:
            report = self._report_of(filled, started)
            if report is None:
                self._in_thread(batch.requests, partial(runner.run_on, batch, filled, started), ended)
                return
            now = time.monotonic_ns()
            if filled.instance.output_bytes > MOST_BYTES_IN_LOOP and runner.converts:
                self._in_thread(batch.requests, partial(runner.complete, batch, filled, report, now), ended)
                return
            runner.complete(batch, filled, report, now)
        except Exception as error:
            self._failed(batch.requests, error, ended)
            return
        ended()

    def give_up(self, batch: Batch, filled: FilledInstance, started: InstanceRun, ended: Ended) -> None:
        """Answer the requests of a run that has not ended by its deadline, and let a thread wait for its end."""
        filled.instance.abandon()
        self._loop.wait_for(partial(_let_end, started), copy_context())
        self._runner.fail(batch.requests, still_running())
        ended()

    def _finish_in_thread(self, batch: Batch, filled: FilledInstance, started: InstanceRun) -> None:
        report = self._report_of(filled, started)
        if report is None:
            self._runner.run_on(batch, filled, started)
        else:
            self._runner.complete(batch, filled, report, time.monotonic_ns())

    def _report_of(self, filled: FilledInstance, started: InstanceRun) -> RunReport | None:
        try:
            return filled.instance.finish(started)
        except BaseException:
            self._instances.give_back(filled.instance, failed=True)
            raise

    def _in_thread(self, requests: Sequence[QueuedRequest], work: Callable[[], None], ended: Ended) -> None:
        def run() -> None:
            try:
                work()
            except Exception as error:
                self._runner.run_alone_or_fail(requests, error)
            self._loop.call(ended)

        self._loop.wait_for(run, requests[0].context)

    def _failed(self, requests: Sequence[QueuedRequest], error: Exception, ended: Ended) -> None:
        if may_run_alone(requests, error):
            self._in_thread(requests, partial(self._runner.run_alone_or_fail, requests, error), ended)
        else:
            self._runner.fail(requests, error)
            ended()


class _InFlight:
    """A run that a device has begun, until its answer can be read or its deadline has passed."""

    __slots__ = ("_arguments", "_runner", "_timer", "_watch")

    def __init__(
        self,
        runner: LoopRunner,
        batch: Batch,
        filled: FilledInstance,
        started: InstanceRun,
        watch: AnswerWatch,
        ended: Ended,
    ) -> None:
        self._runner = runner
        self._arguments = batch, filled, started, ended
        self._watch = watch
        self._timer: asyncio.TimerHandle | None = None
        if batch.deadline_ns != NO_DEADLINE:
            self._timer = asyncio.get_running_loop().call_later(seconds_to_wait(batch.deadline_ns), self._late)
        watch.expect(self._answered)

    def _answered(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._runner.finish(*self._arguments)

    def _late(self) -> None:
        self._watch.close()
        self._runner.give_up(*self._arguments)


def bytes_of(tensors: Iterable[TensorData]) -> int:
    """The bytes that it takes to copy tensors, which those in memory of clients are not."""
    size = 0
    for tensor in tensors:
        if not isinstance(tensor, PlacedTensor):
            size += tensor.nbytes
    return size


def _let_end(started: InstanceRun) -> None:
    """Wait for a run whose requests have been answered; its end releases the instance."""
    if started.finish() is None:
        started.drop()
