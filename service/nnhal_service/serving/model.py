"""A model that serves requests."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from nnhal_service.runtime import LoadedModel, PreparedPlan
from nnhal_service.serving.batcher import Batcher
from nnhal_service.serving.client_runs import ClientRuns
from nnhal_service.serving.config import ServingConfig
from nnhal_service.serving.description import TensorDescription
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.execution import Execution
from nnhal_service.serving.inference import Inference, Ran
from nnhal_service.serving.instance import InstancePool
from nnhal_service.serving.observer import Executed, FailureReason, Finished, Observer
from nnhal_service.serving.placed import Placed
from nnhal_service.serving.priorities import Priorities
from nnhal_service.serving.request import InferenceRequest, InferenceResponse, Parameter, RequestTiming
from nnhal_service.serving.signature import Signature
from nnhal_service.serving.statistics import ModelStatistics, StatisticsRecorder

_LEAST_KEPT = 8
"""Instances that wait to be used again, at least: one for each of the dimensions that requests often have."""


class ServedModel:
    """A model, its queue and its instances. Safe to use from several threads.

    The priority of a request orders the queue, and is that of its execution on devices (``Priorities``); a batch has
    its most urgent. A run has the latest deadline of its batch; a request for which it ends too late fails. A request
    that is given up leaves the queue at once; a run of which all requests are given up ends with the steps that have
    begun, and no other one begins.
    """

    def __init__(
        self,
        name: str,
        version: str,
        loaded: LoadedModel,
        config: ServingConfig,
        observers: Sequence[Observer] = (),
        measure: bool = False,
    ) -> None:
        """Takes ``loaded`` over: it is closed with the served model. ``measure`` has each run report its steps, which
        takes time; else what devices copy is known by plan.

        Raises ServingError: UNSUPPORTED where the protocol has no datatype for a tensor, INVALID_ARGUMENT where the
        configuration says that there are batches and the model has none, or that there are no instances.
        """
        if config.instances < 1:
            message = f"model {name!r} has {config.instances} instances, expected 1 or more"
            raise ServingError(ErrorKind.INVALID_ARGUMENT, message)
        self.name = name
        self.version = version
        self.config = config
        self._loaded = loaded
        self._observers = tuple(observers)
        self._signature = Signature(name, loaded.original, config.max_batch_size)
        self._statistics = StatisticsRecorder()
        self._instances = InstancePool(
            loaded,
            [served.tensor for served in self._signature.inputs],
            [served.tensor for served in self._signature.outputs],
            config.max_batch_size > 0,
            max(_LEAST_KEPT, 2 * config.instances),
            measure,
        )
        priorities = Priorities(config, loaded.original.priority)
        execution = Execution(name, self._signature, self._instances, priorities, self._executed)
        self._batcher: Batcher[Inference] = Batcher(config, execution.run)
        self._has_batches = config.batching is not None and config.max_batch_size > 0
        self._client_runs = ClientRuns(name, version, config.max_batch_size > 0, self._statistics, self._observers)
        self._placed = Placed.by(loaded.original)

    @property
    def inputs(self) -> tuple[TensorDescription, ...]:
        """What it takes, in the model's order."""
        return tuple(served.description for served in self._signature.inputs)

    @property
    def outputs(self) -> tuple[TensorDescription, ...]:
        """What it gives, in the model's order."""
        return tuple(served.description for served in self._signature.outputs)

    @property
    def max_batch_size(self) -> int:
        """0 for a model without batches."""
        return self.config.max_batch_size

    @property
    def labels(self) -> Mapping[str, Sequence[str]]:
        """The names of classes, by output."""
        return self.config.labels

    @property
    def pending(self) -> int:
        """How many requests wait in the queue."""
        return self._batcher.pending

    @property
    def arena_bytes(self) -> int:
        """The memory of values between its steps, of all instances."""
        return self._loaded.arena_bytes

    @property
    def loaded(self) -> LoadedModel:
        """The model on its devices."""
        return self._loaded

    def statistics(self, ask_devices: bool = True) -> ModelStatistics:
        """Everything since it was loaded; direct runs as they were last counted, unless devices are asked for them."""
        if ask_devices:
            self._loaded.count_direct_runs()
        return self._statistics.snapshot(self._batcher.pending)

    def infer(self, request: InferenceRequest) -> InferenceResponse:
        """Run a request; returns when it has run. Release the response when its outputs have been read.

        Raises ServingError: INVALID_ARGUMENT where the request is not what the model takes; UNAVAILABLE where the
        queue is full, the request has waited too long, a device is gone or the model is being unloaded;
        DEADLINE_EXCEEDED and CANCELLED; RESOURCE_EXHAUSTED where there is no memory; INTERNAL where a device fails.
        """
        arrived = request.arrived_ns or time.monotonic_ns()
        inference: Inference | None = None
        is_measured = False
        for observer in self._observers:
            is_measured |= observer.began(self.name, self.version, request)
        try:
            size, arrays = self._signature.check(request)
            key = tuple([array.shape[1:] for array in arrays]) if self._has_batches else None
            inference = Inference(request, arrays, size, key, is_measured)
            if request.cancellation.cancelled:
                raise ServingError(ErrorKind.CANCELLED, "the request has been cancelled")
            self._batcher.submit(inference, request.cancellation)
            return self._response(inference, arrived)
        except ServingError as error:
            self._failed(request, inference, arrived, error)
            raise

    def warm_up(self, requests: Iterable[InferenceRequest]) -> None:
        """Run requests before others come; nobody counts them, nor is told. Raises as ``infer``."""
        statistics, observers = self._statistics, self._observers
        self._statistics, self._observers = StatisticsRecorder(), ()
        try:
            for request in requests:
                self.infer(request).release()
        finally:
            self._statistics, self._observers = statistics, observers

    def open(self) -> LoadedModel:
        """The model for a client with memory of its own: his to close, and of no use once this one is closed.

        Raises HalError with DEVICE_UNAVAILABLE where it is.
        """
        return self._loaded.share(self._client_runs)

    def close(self) -> None:
        """Finish what has been accepted, then free every byte; harmless when repeated.

        Arrays of responses that are not released stay as they are, until nobody refers to them.
        """
        self._batcher.close()
        self._instances.close()
        self._loaded.close()

    def _response(self, inference: Inference, arrived: int) -> InferenceResponse:
        ran, release, request = inference.ran, inference.release, inference.request
        if ran is None or release is None:
            raise ServingError(ErrorKind.INTERNAL, f"model '{self.name}': the request did not run")
        if request.cancellation.cancelled:
            release()
            raise ServingError(ErrorKind.CANCELLED, "the request has been cancelled")
        if ran.run_ended_ns > inference.deadline_ns:
            release()
            raise ServingError(ErrorKind.DEADLINE_EXCEEDED, "Deadline exceeded while the request ran")
        timing = RequestTiming(
            arrived,
            inference.queued_ns,
            ran.input_started_ns,
            ran.run_started_ns,
            ran.run_ended_ns,
            time.monotonic_ns(),
        )
        self._statistics.succeeded(timing, inference.size)
        if self._observers:
            self._tell(
                Finished(
                    self.name,
                    self.version,
                    request,
                    ran.batch_size,
                    timing,
                    ran.report,
                    None,
                    None,
                    arrived,
                    timing.output_ended_ns,
                    inference.outputs,
                )
            )
        return InferenceResponse(self.name, self.version, inference.outputs, self._parameters(ran), timing, release)

    def _parameters(self, ran: Ran) -> Mapping[str, Parameter]:
        """Where it ran, and the bytes that were copied on the way: into the memory of the devices, and by them.

        A run that fell back and was not measured says no more than that.
        """
        steps = ran.report.steps
        if ran.report.fell_back and not steps:
            return {"nnhal_fell_back": True}
        devices, copied = self._placed_by(ran.prepared).devices, ran.planned_copies
        if steps:
            copied = sum(step.copied_bytes for step in steps)
            devices = self._placed_by(ran.prepared).devices_of(ran.report)
        return {
            "nnhal_devices": devices,
            "nnhal_bytes_copied": ran.filled_bytes + copied,
            "nnhal_fell_back": ran.report.fell_back,
        }

    def _placed_by(self, prepared: PreparedPlan) -> Placed:
        """It changes when a device dies, or is back."""
        placed = self._placed
        if placed.prepared is not prepared:
            placed = self._placed = Placed.by(prepared)
        return placed

    def _failed(
        self, request: InferenceRequest, inference: Inference | None, arrived: int, error: ServingError
    ) -> None:
        reason, ended = _reason(error, inference), time.monotonic_ns()
        self._statistics.failed(reason, ended - arrived)
        size = inference.size if inference is not None else 0
        if self._observers:
            self._tell(Finished(self.name, self.version, request, size, None, None, error, reason, arrived, ended))

    def _executed(self, ran: Ran, output_ns: int) -> None:
        self._statistics.executed(
            ran.batch_size, ran.run_started_ns - ran.input_started_ns, ran.run_ended_ns - ran.run_started_ns, output_ns
        )
        if self._observers:
            steps = self._placed_by(ran.prepared).steps
            executed = Executed(self.name, self.version, ran.batch_size, ran.report, steps, ran.planned_edges)
            for observer in self._observers:
                observer.executed(executed)

    def _tell(self, finished: Finished) -> None:
        for observer in self._observers:
            observer.finished(finished)


def _reason(error: ServingError, inference: Inference | None) -> FailureReason:
    if error.kind is ErrorKind.CANCELLED:
        return FailureReason.CANCELED
    if inference is None:
        return FailureReason.OTHER
    if inference.reached_device or inference.ran is not None:
        return FailureReason.BACKEND
    return FailureReason.REJECTED
