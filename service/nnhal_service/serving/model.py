"""A model that serves requests: the way of a request from its check over the queue to its response."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from nnhal_service.runtime import LoadedModel, PreparedPlan
from nnhal_service.serving.batch_run import BatchRun, BatchRunner, QueuedRequest
from nnhal_service.serving.batcher import Batcher
from nnhal_service.serving.client_runs import ClientRuns
from nnhal_service.serving.config import Priorities, ServingConfig
from nnhal_service.serving.errors import ErrorKind, ServingError, serving_error
from nnhal_service.serving.instance import InstancePool
from nnhal_service.serving.observer import Executed, FailureReason, Finished, Observer, Sampler
from nnhal_service.serving.placement import Placement
from nnhal_service.serving.request import InferenceRequest, InferenceResponse, Parameter, RequestTiming
from nnhal_service.serving.signature import ModelSignature, TensorDescription
from nnhal_service.serving.statistics import ModelStatistics, StatisticsRecorder

_LEAST_KEPT = 8
"""The least number of instances that are kept for their next use: one for each of the usual input dimensions."""


class ServedModel:
    """A model, its queue and its instances. Safe to use from several threads.

    The priority of a request orders the queue and its execution on devices (``Priorities``); a batch has the priority
    of its most urgent request. A run has the latest deadline of its batch; a request fails if the run ends too late for
    it. A cancelled request leaves the queue at once. If all requests of a run are cancelled, the steps that have begun
    end, and no other step begins.
    """

    def __init__(
        self,
        name: str,
        version: str,
        loaded: LoadedModel,
        config: ServingConfig,
        observers: Sequence[Observer] = (),
        sampler: Sampler | None = None,
        measure: bool = False,
    ) -> None:
        """Takes ``loaded`` over: it is closed with the served model. If ``measure``, each run reports its steps, which
        takes time; else the bytes that devices copy are those of the plan. ``sampler`` is one more observer.

        Raises ServingError: UNSUPPORTED if the protocol has no datatype for a tensor, INVALID_ARGUMENT if the
        configuration wants batches of a model that has no batch axis, or no instances.
        """
        if config.instances < 1:
            message = f"model {name!r} has {config.instances} instances, expected 1 or more"
            raise ServingError(ErrorKind.INVALID_ARGUMENT, message)
        self.name = name
        self.version = version
        self.config = config
        self._loaded = loaded
        self._sampler = sampler
        self._observers = tuple(observers) if sampler is None else (*observers, sampler)
        self._signature = ModelSignature(name, loaded.original, config.max_batch_size)
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
        runner = BatchRunner(name, self._signature, self._instances, priorities, self._executed)
        self._batcher: Batcher[QueuedRequest] = Batcher(config, runner.run)
        self._has_batches = config.batching is not None and config.max_batch_size > 0
        self._client_runs = ClientRuns(name, version, config.max_batch_size > 0, self._statistics, self._observers)
        self._placement = Placement.of(loaded.original)

    @property
    def inputs(self) -> tuple[TensorDescription, ...]:
        """Its inputs, in the model's order."""
        return tuple(served.description for served in self._signature.inputs)

    @property
    def outputs(self) -> tuple[TensorDescription, ...]:
        """Its outputs, in the model's order."""
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
        """The bytes of the values between its steps, in all instances."""
        return self._loaded.arena_bytes

    @property
    def loaded(self) -> LoadedModel:
        """The model on its devices."""
        return self._loaded

    def statistics(self, ask_devices: bool = True) -> ModelStatistics:
        """All requests since it was loaded; direct runs as last counted, unless devices are asked for them."""
        if ask_devices:
            self._loaded.count_direct_runs()
        return self._statistics.snapshot(self._batcher.pending)

    def infer(self, request: InferenceRequest) -> InferenceResponse:
        """Run a request; returns when it has run. Release the response when its outputs have been read.

        Raises ServingError: INVALID_ARGUMENT if the request does not fit the model; UNAVAILABLE if the queue is full,
        the request has waited too long, a device is gone or the model is being unloaded; DEADLINE_EXCEEDED; CANCELLED;
        RESOURCE_EXHAUSTED if memory is exhausted; INTERNAL if a device fails.
        """
        arrived = request.arrived_ns or time.monotonic_ns()
        queued: QueuedRequest | None = None
        is_measured = self._sampler is not None and self._sampler.began(self.name, self.version, request)
        try:
            size, arrays = self._signature.check(request)
            key = tuple([array.shape[1:] for array in arrays]) if self._has_batches else None
            queued = QueuedRequest(request, arrays, size, key, is_measured)
            if request.cancellation.cancelled:
                raise ServingError(ErrorKind.CANCELLED, "the request has been cancelled")
            self._batcher.submit(queued, request.cancellation)
            return self._response(queued, arrived)
        except Exception as error:  # a defect too: observers were told of the beginning
            self._failed(request, queued, arrived, error)
            raise

    def warm_up(self, requests: Iterable[InferenceRequest]) -> None:
        """Run requests before the model serves; they are not counted, and no observer is told. Raises as ``infer``."""
        statistics, observers, sampler = self._statistics, self._observers, self._sampler
        self._statistics, self._observers, self._sampler = StatisticsRecorder(), (), None
        try:
            for request in requests:
                self.infer(request).release()
        finally:
            self._statistics, self._observers, self._sampler = statistics, observers, sampler

    def open(self) -> LoadedModel:
        """The model for a native client, which closes it; it is of no use once the served model is closed.

        Raises HalError with DEVICE_UNAVAILABLE if the served model is closed.
        """
        return self._loaded.share(self._client_runs)

    def close(self) -> None:
        """Finish the accepted requests, then free all memory; harmless when repeated.

        The arrays of responses that have not been released stay valid as long as they are referred to.
        """
        self._batcher.close()
        self._instances.close()
        self._loaded.close()

    def _response(self, queued: QueuedRequest, arrived: int) -> InferenceResponse:
        run, release, request = queued.run, queued.release, queued.request
        if run is None or release is None:
            raise ServingError(ErrorKind.INTERNAL, f"model '{self.name}': the request did not run")
        if request.cancellation.cancelled:
            release()
            raise ServingError(ErrorKind.CANCELLED, "the request has been cancelled")
        if run.run_ended_ns > queued.deadline_ns:
            release()
            raise ServingError(ErrorKind.DEADLINE_EXCEEDED, "Deadline exceeded while the request run")
        timing = RequestTiming(
            arrived,
            queued.queued_ns,
            run.input_started_ns,
            run.run_started_ns,
            run.run_ended_ns,
            time.monotonic_ns(),
        )
        self._statistics.succeeded(timing, queued.size)
        if self._observers:
            self._notify_finished(
                Finished(
                    self.name,
                    self.version,
                    request,
                    run.batch_size,
                    timing,
                    run.report,
                    None,
                    None,
                    arrived,
                    timing.output_ended_ns,
                    queued.outputs,
                )
            )
        return InferenceResponse(self.name, self.version, queued.outputs, self._parameters(run), timing, release)

    def _parameters(self, run: BatchRun) -> Mapping[str, Parameter]:
        """The devices that ran it, and the bytes that were copied: into the devices' memory, and by the devices.

        Both are unknown if the run fell back without being measured.
        """
        steps = run.report.steps
        if run.report.fell_back and not steps:
            return {"nnhal_fell_back": True}
        devices, copied = self._placement_of(run.prepared).devices, run.planned_copies
        if steps:
            copied = sum(step.copied_bytes for step in steps)
            devices = self._placement_of(run.prepared).devices_of(run.report)
        return {
            "nnhal_devices": devices,
            "nnhal_bytes_copied": run.filled_bytes + copied,
            "nnhal_fell_back": run.report.fell_back,
        }

    def _placement_of(self, prepared: PreparedPlan) -> Placement:
        """The placement of a plan; the plan changes when a device dies, or comes back."""
        placement = self._placement
        if placement.prepared is not prepared:
            placement = self._placement = Placement.of(prepared)
        return placement

    def _failed(self, request: InferenceRequest, queued: QueuedRequest | None, arrived: int, error: Exception) -> None:
        reason, ended = _reason(error, queued), time.monotonic_ns()
        self._statistics.failed(reason, ended - arrived)
        if self._observers:
            size = queued.size if queued is not None else 0
            failure = error if isinstance(error, ServingError) else serving_error(self.name, error)
            self._notify_finished(
                Finished(self.name, self.version, request, size, None, None, failure, reason, arrived, ended)
            )

    def _executed(self, run: BatchRun, output_ns: int) -> None:
        self._statistics.executed(
            run.batch_size, run.run_started_ns - run.input_started_ns, run.run_ended_ns - run.run_started_ns, output_ns
        )
        if self._observers:
            steps = self._placement_of(run.prepared).steps
            executed = Executed(self.name, self.version, run.batch_size, run.report, steps, run.planned_edges)
            for observer in self._observers:
                observer.executed(executed)

    def _notify_finished(self, finished: Finished) -> None:
        for observer in self._observers:
            observer.finished(finished)


def _reason(error: Exception, queued: QueuedRequest | None) -> FailureReason:
    if isinstance(error, ServingError) and error.kind is ErrorKind.CANCELLED:
        return FailureReason.CANCELED
    if queued is None or not isinstance(error, ServingError):
        return FailureReason.OTHER
    if queued.reached_device or queued.run is not None:
        return FailureReason.BACKEND
    return FailureReason.REJECTED
