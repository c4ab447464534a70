"""The framework's side of one front worker: what the worker holds, and the runs that are not direct."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from nnhal.errors import NnhalError
from nnhal.types import Memory, Priority
from nnhal_service.front_workers.forwarded import ForwardedRequest, ForwardedResponse
from nnhal_service.front_workers.interfaces import (
    BoundRunChannel,
    BoundVersion,
    OpenedVersion,
    RunThroughFramework,
    WorkerCounts,
    WorkerStart,
)
from nnhal_service.observability.metrics.requests import RequestMetrics
from nnhal_service.repository import Lease, Repository
from nnhal_service.runtime import PreparedPlan, RunReport, TensorBinding
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.runtime.run.deadlines import run_by_deadline
from nnhal_service.serving import ErrorKind, ServedModel, ServingError
from nnhal_service.serving.instances.bindable_model import BoundLoadedModel

T = TypeVar("T")


class HeldBinding:
    """A model that is bound to a front worker's memory, with the runs that are not direct."""

    def __init__(self, model: ServedModel, bound: BoundLoadedModel) -> None:
        self._model = model
        self.bound = bound
        self._running: Cancellation | None = None
        self._asked: PreparedPlan | None = None

    def run(self, deadline_ns: int) -> RunReport:
        """Run it once. Raises as ExecutionContext, and StillRunningError if the run outlasts its deadline."""
        cancellation = self._running = Cancellation()
        try:
            return run_by_deadline(lambda deadline_ns: self.bound.run(deadline_ns, cancellation), deadline_ns)
        finally:
            self._running = None

    def cancel(self) -> None:
        """Cancel the run in flight; harmless if there is none."""
        running = self._running
        if running is not None:
            running.cancel()

    @property
    def may_be_direct(self) -> bool:
        """Return whether no run channel is open, and none has been asked for since the plan is another one."""
        context = self.bound.context
        return context.prepared is not self._asked and not context.has_run_channel

    def open_run_channel(self) -> BoundRunChannel | None:
        """A new run channel; None if runs are several steps or have empty inputs, or the device has none or is gone."""
        context = self.bound.context
        self._asked = context.prepared
        if self.bound.lengths:
            return None
        try:
            end = context.open_run_channel()
        except NnhalError:  # runs through the framework will tell why
            context.close_run_channel()
            return None
        if end is None:
            return None
        may_fall_back = self._model.loaded.prepared.parts.may_fall_back
        settled = tuple(context.settled)
        return BoundRunChannel(end.channel, end.execution, may_fall_back, tuple(end.outputs), settled)


class ServedWorker:
    """The FrameworkModels of one front worker. Safe to use from several threads.

    The worker's runs are requests of its own served models, which count them: here, nothing counts them.
    """

    def __init__(
        self,
        repository: Repository[ServedModel],
        metrics: RequestMetrics,
        start: Callable[[], WorkerStart],
        reclaim: Callable[[], None],
    ) -> None:
        """``metrics`` take what the worker has counted beside its models' statistics. ``start`` and ``reclaim`` are
        those of FrameworkModels.
        """
        self._repository = repository
        self._metrics = metrics
        self.start = start
        self.reclaim = reclaim
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._leases: dict[int, Lease[ServedModel]] = {}
        self._bindings: dict[int, HeldBinding] = {}
        self._requests: dict[int, Cancellation] = {}
        self._closed = False

    def open(self, name: str, version: str) -> OpenedVersion:
        lease = self._repository.model(name, version)
        number = self._keep(self._leases, lease, lease.release)
        model = lease.model
        return OpenedVersion(
            number,
            lease.serial,
            lease.name,
            int(lease.version),
            lease.config,
            model.config,
            model.signature.inputs,
            model.signature.outputs,
            model.signature.optional,
            model.bindable.memory_kind,
            model.bindable.alignment,
            model.bindable.priority,
        )

    def release(self, lease: int) -> None:
        with self._lock:
            held = self._leases.pop(lease, None)
        if held is not None:
            held.release()

    def count(self, counts: WorkerCounts) -> None:
        with self._lock:
            models = [(lease.model, counts.models[n]) for n, lease in self._leases.items() if n in counts.models]
        for model, (requests, pending, oldest_ns) in models:
            model.add_counts(requests)
            model.note_pending(self, pending, oldest_ns)
        self._metrics.add(counts.metrics)

    def bind(
        self,
        lease: int,
        inputs: Sequence[TensorBinding],
        outputs: Sequence[TensorBinding],
        pools: Sequence[Memory],
        measure: bool,
        priority: Priority | None,
    ) -> BoundVersion:
        with self._lock:
            model = self._leases[lease].model
        bound = model.bindable.bind(inputs, outputs, pools, measure, priority)
        held = HeldBinding(model, bound)
        number = self._keep(self._bindings, held, bound.close)
        return BoundVersion(number, bound.planned, None if measure else held.open_run_channel())

    def infer(self, lease: int, number: int, request: ForwardedRequest, client: str) -> ForwardedResponse:
        cancellation = Cancellation()
        with self._lock:
            model = self._leases[lease].model
            self._requests[number] = cancellation
        try:
            with model.infer_and_wait(request.as_request(cancellation), client) as response:
                return ForwardedResponse.of(response)
        finally:
            self._requests.pop(number, None)

    def cancel_request(self, number: int) -> None:
        cancellation = self._requests.get(number)
        if cancellation is not None:
            cancellation.cancel()

    def run(self, binding: int, deadline_ns: int, lost_run_channel: bool) -> RunThroughFramework:
        held = self._bindings[binding]
        if lost_run_channel:  # no device may be at work on a direct run any more
            held.bound.context.close_run_channel()
        report = held.run(deadline_ns)
        channel = held.open_run_channel() if lost_run_channel or held.may_be_direct else None
        return RunThroughFramework(report, held.bound.planned, channel)

    def cancel(self, binding: int) -> None:
        held = self._bindings.get(binding)
        if held is not None:
            held.cancel()

    def unbind(self, binding: int, drain_seconds: float) -> None:
        with self._lock:
            held = self._bindings.pop(binding, None)
        if held is not None:
            held.bound.close(drain_seconds)

    def close(self) -> None:
        """Release all that the worker holds; what it asks for from now on is refused."""
        with self._lock:
            self._closed = True
            bindings, self._bindings = self._bindings, {}
            leases, self._leases = self._leases, {}
        for cancellation in list(self._requests.values()):
            cancellation.cancel()
        for held in bindings.values():
            held.bound.close()
        for lease in leases.values():
            lease.model.note_pending(self)
            lease.release()

    def _keep(self, held: dict[int, T], item: T, release: Callable[[], None]) -> int:
        """Give an item a number. Releases it and raises UNAVAILABLE if the worker is gone."""
        with self._lock:
            if not self._closed:
                number = next(self._numbers)
                held[number] = item
                return number
        release()
        raise ServingError(ErrorKind.UNAVAILABLE, "the front worker is gone")
