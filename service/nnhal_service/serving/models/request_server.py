"""A model that serves requests: the way of a request from its check over the queue to its response."""

from __future__ import annotations

import time
from asyncio import CancelledError
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from nnhal.reports import NOTHING_COPIED
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime.context.execution_context import DRAIN_SECONDS
from nnhal_service.serving.config import Priorities, ServingConfig
from nnhal_service.serving.errors import ErrorKind, ServingError, serving_error
from nnhal_service.serving.history.live_requests import LiveRequests
from nnhal_service.serving.history.observer import FailureReason, Finished, Observer, Sampler
from nnhal_service.serving.history.statistics import Executions, RequestCounts, StatisticsRecorder
from nnhal_service.serving.instances.bindable_model import BindableModel
from nnhal_service.serving.instances.in_place import InPlaceUse
from nnhal_service.serving.instances.instance import NOT_COUNTED
from nnhal_service.serving.instances.instance_memory import InstanceMemory
from nnhal_service.serving.instances.instance_pool import InstancePool
from nnhal_service.serving.instances.runner import RequestRunner
from nnhal_service.serving.loop import MOST_BYTES_IN_LOOP, ServingLoop
from nnhal_service.serving.queue.batch import QueuedRequest
from nnhal_service.serving.queue.batcher import Batcher
from nnhal_service.serving.queue.sequences import SEQUENCE_END, SEQUENCE_ID, SEQUENCE_START, Sequencer, Turn
from nnhal_service.serving.requests.client_memory import TensorData, bytes_of
from nnhal_service.serving.requests.request import InferenceRequest, InferenceResponse, RequestTiming
from nnhal_service.serving.requests.signature import ModelSignature, TensorDescription

_log = get_logger(__name__)
_LEAST_KEPT = 8
"""The least number of instances that are kept for their next use: one for each of the usual input dimensions."""


class RequestServer:
    """A model, its queue and its instances.

    Requests are served in the event loop: ``infer`` is a coroutine of it. Everything else may be used from any other
    thread, and ``infer_and_wait`` is ``infer`` for those.

    The priority of a request orders the queue and its execution on devices (``Priorities``); a batch has the priority
    of its most urgent request. A run has the latest deadline of its batch; a request fails if the run ends too late for
    it. A cancelled request leaves the queue at once. If all requests of a run are cancelled, the steps that have begun
    end, and no other step begins.
    """

    def __init__(
        self,
        name: str,
        version: str,
        signature: ModelSignature,
        model: BindableModel,
        config: ServingConfig,
        loop: ServingLoop,
        observers: Sequence[Observer] = (),
        samplers: Sequence[Sampler] = (),
        measure: bool = False,
        memory: InstanceMemory = NOT_COUNTED,
        counted_in: RequestServer | None = None,
    ) -> None:
        """If ``measure``, each run reports its steps, which takes time; else the bytes that devices copy are those of
        the plan. ``samplers`` are further observers. Instances count in ``memory``. Requests are listed and counted as
        those of ``counted_in``.

        Raises INVALID_ARGUMENT if the configuration wants no instances.
        """
        if config.instances < 1:
            message = f"model {name!r} has {config.instances} instances, expected 1 or more"
            raise ServingError(ErrorKind.INVALID_ARGUMENT, message)
        self.name = name
        self.version = version
        self.config = config
        self.signature = signature
        self._samplers = tuple(samplers)
        self._observers = (*observers, *samplers)
        self._statistics: StatisticsRecorder = StatisticsRecorder() if counted_in is None else counted_in._statistics
        self._executions = Executions(name, version, self._statistics, self._observers)
        self._priorities = Priorities(config, model.priority)
        own = LiveRequests(name, version, self._priorities, model.priority)
        self._live: LiveRequests = own if counted_in is None else counted_in._live
        self._placing = InPlaceUse(model.plan, signature.inputs, signature.outputs)
        self._loop = loop
        self._measure, self._memory = measure, memory
        self._instances, self._runner = self._runner_of(model, max(_LEAST_KEPT, 2 * config.instances))
        # Without a reference to this model, which then needs no garbage collector to release its memory.
        self._batcher: Batcher[QueuedRequest] = Batcher(config, self._runner.start, loop)
        self._has_batches = config.batching is not None and config.max_batch_size > 0
        self._sequences: Sequencer | None = None

    @property
    def inputs(self) -> tuple[TensorDescription, ...]:
        """Its inputs, in the model's order, and those that have a default."""
        required = (s.description for s in self.signature.inputs if s.tensor.name not in self.signature.hidden)
        return (*required, *self.signature.optional)

    @property
    def outputs(self) -> tuple[TensorDescription, ...]:
        """Its outputs that the configuration lists, in the model's order."""
        listed = self.signature.listed_outputs
        return tuple(s.description for s in self.signature.outputs if s.tensor.name in listed)

    @property
    def max_batch_size(self) -> int:
        """0 for a model without batches."""
        return self.config.max_batch_size

    @property
    def labels(self) -> Mapping[str, Sequence[str]]:
        return self.config.labels

    @property
    def pending(self) -> int:
        return self._batcher.pending

    @property
    def sequences(self) -> int:
        return 0 if self._sequences is None else self._sequences.live

    @property
    def has_counted(self) -> bool:
        """Return whether ``take_counts`` has something to take."""
        return self._statistics.has_counted

    @property
    def counts(self) -> RequestCounts:
        """Return what was counted so far, and not taken."""
        return self._statistics.counts

    @property
    def live(self) -> LiveRequests:
        """The requests that wait and run. May be used from any thread."""
        return self._live

    def take_counts(self) -> RequestCounts:
        """Return what was counted since the last call, which is forgotten here."""
        return self._statistics.take()

    async def infer(self, request: InferenceRequest, client: str = "") -> InferenceResponse:
        """Run a request; returns when it has run. Release the response when its outputs have been read. ``client`` says
        who asked for it.

        A task that is cancelled meanwhile cancels the request, and ends with CancelledError when the request has ended.

        Raises ServingError: INVALID_ARGUMENT if the request does not fit the model; UNAVAILABLE if the queue is full,
        the request has waited too long, a device is gone or the model is being unloaded; DEADLINE_EXCEEDED; CANCELLED;
        RESOURCE_EXHAUSTED if memory is exhausted; INTERNAL if a device fails.
        """
        if self.signature.optional and (server := await self._server_of(request)) is not self:
            return await server.infer(request, client)
        arrived = request.arrived_ns or time.monotonic_ns()
        queued: QueuedRequest | None = None
        turn: Turn | None = None
        arrays: Sequence[TensorData]
        is_measured, live = False, self._live.requests
        for sampler in self._samplers:
            is_measured |= sampler.began(self.name, self.version, request)
        try:
            if self._sequences is not None:
                turn = self._sequences.enter(request)
                request = turn.request
            form = request.form
            if form is not None and form.signature is self.signature:
                size, arrays = form.size, list(map(request.inputs.__getitem__, form.inputs))
            else:
                request, size, arrays = await self._checked(request)
                if form is not None:
                    form.keep(self.signature, request.inputs, size, arrays)
            if turn is not None and size > 1:
                message = f"inference request to model '{self.name}' must specify batch-size 1 due to requirements of "
                raise ServingError(ErrorKind.INVALID_ARGUMENT, message + "sequence batcher")
            key = (request.is_bounded, *[array.shape[1:] for array in arrays]) if self._has_batches else None
            queued = QueuedRequest(request, arrays, size, key, is_measured, client)
            live.add(queued)
            if request.cancellation.cancelled:
                raise ServingError(ErrorKind.CANCELLED, "the request has been cancelled")
            if turn is not None:
                queued.start = await turn.begin(queued.latest_ns)
            await self._batcher.submit(queued, request.cancellation)
            response = self._response(queued, arrived)
            if turn is not None:
                turn.end(None)
            return response
        except (Exception, CancelledError) as error:  # a defect too: observers were told of the beginning
            if turn is not None:
                turn.end(error)
                if isinstance(error, ServingError):
                    error = turn.explained(error)
            if queued is not None and queued.release is not None:
                queued.release()
            self._failed(request, queued, arrived, error, client)
            if queued is not None:
                queued.error = None  # its frames hold the request: the cycle would keep a region of the client open
            raise error
        finally:
            if queued is not None:
                live.discard(queued)

    async def _server_of(self, request: InferenceRequest) -> RequestServer:
        """Return who serves a request, which may give inputs that have a default."""
        return self

    async def _checked(self, request: InferenceRequest) -> tuple[InferenceRequest, int, Sequence[TensorData]]:
        """Return a request with the inputs that must be read, its batch size, and its inputs as they lie in memory.

        Raises as ``ModelSignature.check``, and INVALID_ARGUMENT if memory of the client has become too short.
        """
        if self._placing.must_read(request):
            request = await self._loop.compute(self._placing.read, request)
        if bytes_of(request.inputs.values()) > MOST_BYTES_IN_LOOP:
            return request, *await self._loop.compute(self.signature.check, request)
        return request, *self.signature.check(request)

    def infer_and_wait(self, request: InferenceRequest, client: str = "") -> InferenceResponse:
        """Run a request from another thread than the loop's. Raises as ``infer``."""
        return self._loop.run(self.infer(request, client))

    def warm_up(self, requests: Iterable[InferenceRequest]) -> None:
        """Run requests before the model serves, without counting them or calling observers. Raises as ``infer``."""
        statistics, observers, samplers = self._statistics, self._observers, self._samplers
        self._statistics, self._observers, self._samplers = StatisticsRecorder(), (), ()
        try:
            with self._executions.ignored():
                for request in requests:
                    self.infer_and_wait(self._alone(request)).release()
        finally:
            self._statistics, self._observers, self._samplers = statistics, observers, samplers

    def _alone(self, request: InferenceRequest) -> InferenceRequest:
        """A request that is a sequence of its own, if the model has sequences."""
        if self.config.sequences is None:
            return request
        alone = {SEQUENCE_ID: self.config.sequences.least_id, SEQUENCE_START: True, SEQUENCE_END: True}
        return replace(request, parameters={**request.parameters, **alone})

    def drain(self, drain: bool) -> None:
        """Have batches wait for no more requests, since none come; or wait for them again."""
        self._loop.call(partial(self._batcher.drain, drain))

    def close(self) -> None:
        """Finish the accepted requests, then free all memory; harmless when repeated.

        Those that take longer than DRAIN_SECONDS are cancelled. What a device that is stuck still uses is freed at the
        end of its run. The arrays of responses that have not been released stay valid as long as they are referred to.
        """
        closed = self._loop.submit(self._batcher.close())
        if not _ends_within(DRAIN_SECONDS, closed):
            _log.warning("requests of a model that is unloaded take long: they are cancelled", model=self.name)
            self._live.cancel_all()
            if not _ends_within(DRAIN_SECONDS, closed):
                _log.warning("a device does not end the requests of a model that is unloaded", model=self.name)
        if self._sequences is not None:
            self._sequences.close()
        self._instances.close()

    def _runner_of(self, model: BindableModel, kept: int) -> tuple[InstancePool, RequestRunner]:
        """Return instances of a model, ``kept`` of them for good, and what runs requests on them."""
        config, signature = self.config, self.signature
        instances = InstancePool(
            model,
            [served.tensor for served in signature.inputs],
            [served.tensor for served in signature.outputs],
            config.max_batch_size > 0,
            kept,
            self._measure,
            self._loop,
            self._memory,
        )
        noted = self._executions.note
        runner = RequestRunner(self.name, signature, instances, self._placing, self._priorities, noted, self._loop)
        return instances, runner

    def _response(self, queued: QueuedRequest, arrived: int) -> InferenceResponse:
        run, release, request = queued.run, queued.release, queued.request
        if run is None or release is None:
            raise ServingError(ErrorKind.INTERNAL, f"model '{self.name}': the request did not run")
        if request.cancellation.cancelled:
            raise ServingError(ErrorKind.CANCELLED, "the request has been cancelled")
        if run.run_ended_ns > queued.deadline_ns:
            raise ServingError(ErrorKind.DEADLINE_EXCEEDED, "Deadline exceeded while the request run")
        timing = RequestTiming(
            arrived,
            queued.queued_ns,
            run.input_started_ns,
            run.run_started_ns,
            run.run_ended_ns,
            time.monotonic_ns(),
        )
        report, account = run.report, run.account
        copied = account.copied if report.steps or not report.fell_back else NOTHING_COPIED
        self._statistics.succeeded(timing, queued.size, report.fell_back)
        if self._observers:
            finished = Finished(
                self.name,
                self.version,
                request,
                run.batch_size,
                timing,
                report,
                None,
                None,
                arrived,
                timing.output_ended_ns,
                queued.outputs,
                queued.client,
                account.devices,
                copied,
            )
            for observer in self._observers:
                observer.finished(finished)
        return InferenceResponse(self.name, self.version, queued.outputs, account.parameters, timing, release)

    def _failed(
        self,
        request: InferenceRequest,
        queued: QueuedRequest | None,
        arrived: int,
        error: Exception | CancelledError,
        client: str,
    ) -> None:
        if isinstance(error, CancelledError):
            error = ServingError(ErrorKind.CANCELLED, "the request has been cancelled")
        reason, ended = _reason(error, queued), time.monotonic_ns()
        self._statistics.failed(reason, ended - arrived)
        if self._observers:
            size = queued.size if queued is not None else 0
            failure = error if isinstance(error, ServingError) else serving_error(self.name, error)
            finished = Finished(
                self.name, self.version, request, size, None, None, failure, reason, arrived, ended, client=client
            )
            for observer in self._observers:
                observer.finished(finished)


def _ends_within(seconds: float, work: Future[None]) -> bool:
    try:
        work.result(seconds)
    except TimeoutError:
        return work.done()
    return True


def _reason(error: Exception, queued: QueuedRequest | None) -> FailureReason:
    if isinstance(error, ServingError) and error.kind is ErrorKind.CANCELLED:
        return FailureReason.CANCELED
    if queued is None or not isinstance(error, ServingError):
        return FailureReason.OTHER
    if queued.reached_device or queued.run is not None:
        return FailureReason.BACKEND
    return FailureReason.REJECTED
