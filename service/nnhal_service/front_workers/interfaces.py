"""Interfaces between the framework's process and a front worker, in both directions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from nnhal.descriptor import Descriptor
from nnhal.inference.model_config_pb2 import ModelConfig
from nnhal.types import Ashmem, Memory, Priority
from nnhal_service.front_workers.forwarded import ForwardedRequest, ForwardedResponse
from nnhal_service.observability.metrics.requests import RecordedRequests
from nnhal_service.observability.traces.tracer import TraceRules
from nnhal_service.runtime import OutputReport, RunReport, TensorBinding
from nnhal_service.serving.config import ServingConfig
from nnhal_service.serving.history.ended_runs import EndedRun, ProcessRuns
from nnhal_service.serving.history.statistics import RequestCounts
from nnhal_service.serving.requests.planned_run import PlannedRun
from nnhal_service.serving.requests.signature import ServedTensor, TensorDescription
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
    """The settings of the log."""
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
    workers: int
    """How many front workers there are."""
    http: Descriptor | None
    """The socket that listens for HTTP, of which all workers accept connections; None without HTTP."""


@dataclass(frozen=True, slots=True)
class OpenedVersion:
    """A version of a model that a front worker may bind until it releases the lease."""

    lease: int
    serial: int
    """Tells it from another load of the same version."""
    name: str
    version: int
    config: ModelConfig
    serving: ServingConfig
    inputs: tuple[ServedTensor, ...]
    outputs: tuple[ServedTensor, ...]
    optional: tuple[TensorDescription, ...]
    """The inputs that requests may leave out."""
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

    binding: int
    planned: PlannedRun
    run_channel: BoundRunChannel | None
    """None if its runs go through the framework."""


class RunThroughFramework(NamedTuple):
    """Result of a run that went through the framework."""

    report: RunReport
    planned: PlannedRun
    run_channel: BoundRunChannel | None
    """A new run channel, if the worker has lost its own, or had none by an earlier plan, and there can be one."""


class WorkerCounts(NamedTuple):
    """Counts of a front worker since its last report."""

    models: Mapping[int, tuple[RequestCounts, int, int]]
    """By lease: the requests, how many wait in the queue now, and as ``LiveRequests.oldest_ns``."""
    metrics: RecordedRequests


class FrameworkModels(Protocol):
    """Models for one front worker. The methods raise as those of LoadedModel and ExecutionContext."""

    def start(self) -> WorkerStart:
        """Return what the worker needs to know before it serves."""

    def open(self, name: str, version: str) -> OpenedVersion:
        """Hold a version of a model, by default the newest, until its lease is released. Raises as ``Repository``."""

    def release(self, lease: int) -> None:
        """Release a lease; nothing may be bound under it."""

    def count(self, counts: WorkerCounts) -> None:
        """Add what the worker has counted."""

    def reclaim(self) -> None:
        """Begin to have all processes give back the memory that they keep for later requests, since this one is short
        of it.
        """

    def bind(
        self,
        lease: int,
        inputs: Sequence[TensorBinding],
        outputs: Sequence[TensorBinding],
        pools: Sequence[Memory],
        measure: bool,
        priority: Priority | None,
    ) -> BoundVersion:
        """Bind a model that is held to memory of the worker."""

    def infer(self, lease: int, number: int, request: ForwardedRequest, client: str) -> ForwardedResponse:
        """Run a request of a model that is held. ``number`` is the worker's for it. Raises as ``ServedModel.infer``."""

    def cancel_request(self, number: int) -> None:
        """Cancel a request; harmless if it has ended."""

    def run(self, binding: int, deadline_ns: int, lost_run_channel: bool) -> RunThroughFramework:
        """Run a bound model once. If the worker has lost its run channel, a new one is opened after the run."""

    def cancel(self, binding: int) -> None:
        """Cancel the run of a bound model; harmless if none runs."""

    def unbind(self, binding: int, drain_seconds: float) -> None:
        """Release a bound model when its run has ended; wait for that so many seconds at most."""


class FrameworkRuns(Protocol):
    """Services of the framework's process for the log of runs of one front worker."""

    def keep(self, run: EndedRun) -> None:
        """Keep a run that is recorded: it was measured, or has failed."""

    def fell_back(self, model: str, devices: Sequence[str]) -> None:
        """Note that a run fell back, since these devices had failed."""

    def overloaded(self, model: str, why: str) -> None:
        """Note that a request was refused since there are too many."""


class WorkerDuties(Protocol):
    """Orders of the framework to a front worker."""

    def changed(self, name: str, serials: Collection[int]) -> None:
        """A model was loaded or unloaded. When this returns, requests get none but the versions with these serials."""

    def report(self) -> None:
        """Report what was counted so far; returns when the framework has it."""

    def drain(self, drain: bool) -> None:
        """Take no new requests, or take them again."""

    def record(self, models: Collection[str]) -> None:
        """The models whose runs are recorded have changed."""

    def runs(self) -> ProcessRuns:
        """The requests that wait and run, and those that have ended since the last question."""

    def cancel_request(self, number: int) -> bool | None:
        """Cancel a request, as ``LiveRequests.cancel`` does."""

    def reclaim(self) -> None:
        """Give back the memory that is kept for later requests."""

    def trace_changed(self, rules: TraceRules) -> None:
        """The settings of traces have changed."""

    def log_changed(self, settings: Mapping[str, LogSetting]) -> None:
        """The settings of the log have changed."""
