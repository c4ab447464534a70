"""The framework's side of one front worker: what the worker holds, and the runs that are not direct."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nnhal.descriptor import Descriptor
from nnhal.errors import NnhalError
from nnhal.inference.model_config_pb2 import ModelConfig
from nnhal.types import Ashmem, Memory, Priority
from nnhal_service.observability.metrics.requests import RecordedRequests, RequestMetrics
from nnhal_service.observability.traces.tracer import TraceReservation, TraceRules
from nnhal_service.repository import Lease, Repository
from nnhal_service.runtime import OutputReport, PreparedPlan, RunReport, TensorBinding
from nnhal_service.runtime.context.execution_context import DRAIN_SECONDS
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.runtime.run.deadlines import run_by_deadline
from nnhal_service.serving import ServedModel
from nnhal_service.serving.config import ServingConfig
from nnhal_service.serving.history.refused_calls import RefusedCalls
from nnhal_service.serving.history.statistics import RequestCounts
from nnhal_service.serving.instances.bindable_model import BoundLoadedModel
from nnhal_service.serving.requests.client_memory import to_array
from nnhal_service.serving.requests.planned_run import PlannedRun
from nnhal_service.serving.requests.request import InferenceRequest, InferenceResponse
from nnhal_service.serving.requests.signature import ModelSignature
from nnhal_service.settings import ServiceSettings
from nnhal_service.v2.backend import LogSetting, ServerDescription

HTTP_CONNECTIONS, REQUEST_BYTES = NUMBER_ROWS = range(2)
"""What the processes that share the ports count together."""


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """Facts that a front worker needs before it serves."""

    settings: ServiceSettings
    """The settings of the framework, with the chosen ports."""
    server: ServerDescription
    directory: Path
    """The directory of the framework's endpoint."""
    log: Mapping[str, LogSetting]
    trace: TraceRules
    """What is traced."""
    numbers: Ashmem
    """The NumberTable of limits that all workers share: its rows are NUMBER_ROWS."""
    recorded: Collection[str]
    """The models whose runs are recorded, as ``RunRecordings`` has them."""
    drains: bool
    """True if it takes no new requests."""
    column: int
    """The worker's own column of the table, and its number among the workers."""
    sockets: Mapping[str, Descriptor]
    """The sockets that listen, by protocol: all workers accept connections of them."""


@dataclass(frozen=True, slots=True)
class OpenedVersion:
    """A version of a model that a front worker may bind until it closes ``held``."""

    held: HeldModel
    serial: int
    """Tells it from another load of the same version."""
    name: str
    version: int
    config: ModelConfig
    serving: ServingConfig
    signature: ModelSignature
    memory_kind: str
    """The kind of memory that its instances use."""
    alignment: int
    """The alignment of inputs and outputs in that memory, in bytes."""
    priority: Priority
    """The priority that it was prepared with."""


class BoundRunChannel(NamedTuple):
    """A run channel of a bound model; see ``runtime.run.run_channel``."""

    channel: Descriptor
    execution: int
    may_fall_back: bool
    """True if a run that the device refuses is to be repeated through the framework."""
    outputs: Sequence[str] = ()
    """The names of outputs whose dimensions answers may report, in their order; empty strings for no output."""
    known: Sequence[OutputReport] = ()
    """Dimensions of outputs that the model leaves open and answers do not report."""


class BoundVersion(NamedTuple):
    """A version of a model that is bound to a front worker's memory."""

    binding: HeldBinding
    planned: PlannedRun
    run_channel: BoundRunChannel | None
    """None if its runs go through the framework."""


class RunThroughFramework(NamedTuple):
    """Result of a run that went through the framework."""

    report: RunReport
    planned: PlannedRun
    run_channel: BoundRunChannel | None
    """A new run channel, if the worker has lost its own, or had none by an earlier plan, and there can be one."""


class HeldBinding:
    """A model that is bound to a front worker's memory, with the runs that are not direct."""

    def __init__(self, model: ServedModel, bound: BoundLoadedModel) -> None:
        self._model = model
        self._bound = bound
        self._asked: PreparedPlan | None = None
        """The plan by which a run channel was asked for last."""

    def run(self, deadline_ns: int, lost_run_channel: bool, cancellation: Cancellation | None) -> RunThroughFramework:
        """Run it once. If the worker has lost its run channel, a new one is opened after the run.

        Raises as ExecutionContext, and StillRunningError if the run outlasts its deadline.
        """
        context = self._bound.context
        if lost_run_channel:  # no device may be at work on a direct run any more
            context.close_run_channel()
        report = run_by_deadline(lambda deadline_ns: self._bound.run(deadline_ns, cancellation), deadline_ns)
        is_replanned = context.prepared is not self._asked and not context.has_run_channel
        channel = self.open_run_channel() if lost_run_channel or is_replanned else None
        return RunThroughFramework(report, self._bound.planned, channel)

    def open_run_channel(self) -> BoundRunChannel | None:
        """A new run channel; None if runs are several steps or have empty inputs, or the device has none or is gone."""
        context = self._bound.context
        self._asked = context.prepared
        if self._bound.lengths:
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

    def close(self, drain_seconds: float = DRAIN_SECONDS) -> None:
        """Release it when its run has ended; wait for that so many seconds at most."""
        self._bound.close(drain_seconds)


class HeldModel:
    """A version of a model that serves until it is closed. Its requests are counted where they are served."""

    def __init__(self, lease: Lease[ServedModel]) -> None:
        self._lease = lease
        self._model = lease.model

    def bind(
        self,
        inputs: Sequence[TensorBinding],
        outputs: Sequence[TensorBinding],
        pools: Sequence[Memory],
        measure: bool,
        priority: Priority | None,
    ) -> BoundVersion:
        """Bind it to memory of the worker. Raises as BindableModel."""
        bound = self._model.bindable.bind(inputs, outputs, pools, measure, priority)
        held = HeldBinding(self._model, bound)
        return BoundVersion(held, bound.planned, None if measure else held.open_run_channel())

    def infer(self, request: InferenceRequest, client: str) -> InferenceResponse:
        """Run a request in this process, which checks and counts it. Raises as ``ServedModel.infer``."""
        with self._model.infer_and_wait(request, client) as response:
            outputs = {name: np.array(to_array(tensor)) for name, tensor in response.outputs.items()}
            return replace(response, outputs=outputs, release=released)

    def count(self, counts: RequestCounts, pending: int, oldest_ns: int) -> None:
        """Add what the worker has counted; the rest is as ``note_pending`` has it."""
        self._model.add_counts(counts)
        self._model.note_pending(self, pending, oldest_ns)

    def close(self) -> None:
        self._model.note_pending(self)
        self._lease.release()


HELD = (HeldModel, HeldBinding, TraceReservation)
"""Objects of the framework that stay in its process while a worker uses them."""


class WorkerCounts(NamedTuple):
    """Counts of a front worker since its last report."""

    models: Sequence[tuple[HeldModel, RequestCounts, int, int]]
    """The requests, how many wait in the queue now, and as ``LiveRequests.oldest_ns``."""
    metrics: RecordedRequests
    refused: Mapping[tuple[str, str], int]
    """Calls that it has refused, by reason and client."""


class ServedWorker:
    """The models and the start of one front worker. Safe to use from several threads."""

    def __init__(
        self,
        repository: Repository[ServedModel],
        metrics: RequestMetrics,
        start: Callable[[], WorkerStart],
        reclaim: Callable[[], None],
        refused: RefusedCalls,
    ) -> None:
        """``metrics`` and ``refused`` take what the worker has counted beside its models' statistics."""
        self._refused = refused
        self._repository = repository
        self._metrics = metrics
        self.start = start
        """Returns what the worker needs to know before it serves."""
        self.reclaim = reclaim
        """Begins to have all processes give back the memory that they keep for later requests."""

    def open(self, name: str, version: str) -> OpenedVersion:
        """Hold a version of a model, by default the newest, until it is closed. Raises as ``Repository``."""
        lease = self._repository.model(name, version)
        model = lease.model
        return OpenedVersion(
            HeldModel(lease),
            lease.serial,
            lease.name,
            int(lease.version),
            lease.config,
            model.config,
            model.signature,
            model.bindable.memory_kind,
            model.bindable.alignment,
            model.bindable.priority,
        )

    def count(self, counts: WorkerCounts) -> None:
        """Add what the worker has counted."""
        for model, requests, pending, oldest_ns in counts.models:
            model.count(requests, pending, oldest_ns)
        self._metrics.add(counts.metrics)
        for (reason, client), count in counts.refused.items():
            self._refused.add(reason, client, count)


def released() -> None:
    """Release a response whose outputs are copies."""
