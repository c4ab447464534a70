"""Watchers of the runs of native clients, which bind their own memory and pass the queue by.

A client's bindings are limited when it binds. The device orders its runs among all others.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from nnhal.reports import NOTHING_COPIED, CopiedBytes, copied_by
from nnhal.types import RunUsage
from nnhal_service.runtime import PreparedPlan, RunReport
from nnhal_service.runtime.run.reports import Context, RunWatcher
from nnhal_service.serving.history.ended_runs import EndedRun, RunLog
from nnhal_service.serving.history.observer import Executed, FailureReason, Observer
from nnhal_service.serving.history.statistics import RequestCounts, StatisticsRecorder
from nnhal_service.serving.requests.planned_run import PlannedEdge, planned_edges, planned_steps
from nnhal_service.serving.requests.request import RequestTiming


class _Planned(NamedTuple):
    """Plan of a context's runs, as far as it decides their bytes. A client's memory is taken to be ashmem, which all
    clients use.
    """

    prepared: PreparedPlan
    steps: tuple[str, ...]
    edges: tuple[PlannedEdge, ...]
    devices: str
    copied: CopiedBytes


class _Plans:
    """Last plan of each context."""

    def __init__(self) -> None:
        self._planned: WeakKeyDictionary[Context, _Planned] = WeakKeyDictionary()

    def of(self, context: Context, prepared: PreparedPlan) -> _Planned:
        planned = self._planned.get(context)
        if planned is None or planned.prepared is not prepared:
            edges, steps = planned_edges(prepared, {}, context.lengths), planned_steps(prepared)
            planned = _Planned(prepared, steps, edges, ",".join(dict.fromkeys(steps)), copied_by(edges))
            self._planned[context] = planned
        return planned


class ClientRuns:
    """The runs of a served model that native clients have bound: each is a request, and a batch of its own."""

    def __init__(
        self,
        name: str,
        version: str,
        has_batches: bool,
        recorder: StatisticsRecorder,
        observers: Sequence[Observer] = (),
        run_log: RunLog | None = None,
    ) -> None:
        """``run_log`` is called for each run that is not direct."""
        self._name = name
        self._version = version
        self._has_batches = has_batches
        self._recorder = recorder
        self._observers = observers
        self._run_log = run_log
        self._plans = _Plans()

    def of(self, client: str) -> RunWatcher:
        return _RunsOfClient(self, client)

    def ran(self, client: str, context: Context, report: RunReport) -> None:
        size, planned = self._size(context), self._plans.of(context, context.prepared)
        copied, ended = _copied_in(report, planned), time.monotonic_ns()
        began = ended - report.duration_ns
        self._recorder.ran(report.duration_ns, size, copied, report.fell_back)
        self._notify(planned, size, report, 1, RequestTiming(began, began, began, began, ended, ended))
        if self._run_log is not None:
            self._run_log.keep(_ended(self._name, self._version, client, ended, size, planned.devices, copied, report))

    def failed(self, client: str, duration_ns: int, error: BaseException) -> None:
        self._recorder.failed(FailureReason.BACKEND, duration_ns)
        if self._run_log is not None:
            self._run_log.keep(_failed(self._name, self._version, client, duration_ns, error))

    def ran_directly(self, context: Context, usage: RunUsage) -> None:
        """A client has run so much over a run channel."""
        size, planned = self._size(context), self._plans.of(context, context.direct_plan)
        self._recorder.counted(usage, size, planned.copied.times(usage.runs))
        if usage.runs:
            self._notify(planned, size, RunReport(usage.duration_ns, 0), usage.runs)

    def _notify(
        self, planned: _Planned, size: int, report: RunReport, runs: int, timing: RequestTiming | None = None
    ) -> None:
        executed = Executed(self._name, self._version, size, report, planned.steps, planned.edges, runs, timing)
        for observer in self._observers:
            observer.executed(executed)

    def _size(self, context: Context) -> int:
        return context.items if self._has_batches else 1


class _RunsOfClient:
    """The RunWatcher of one client."""

    def __init__(self, runs: ClientRuns, client: str) -> None:
        self._runs = runs
        self._client = client

    def ran(self, context: Context, report: RunReport) -> None:
        self._runs.ran(self._client, context, report)

    def failed(self, context: Context, duration_ns: int, error: BaseException) -> None:
        self._runs.failed(self._client, duration_ns, error)

    def ran_directly(self, context: Context, usage: RunUsage) -> None:
        self._runs.ran_directly(context, usage)


class ClientModelUsage(NamedTuple):
    """The runs since the start of all models that clients have loaded themselves."""

    runs: RunUsage = RunUsage()
    steps: Mapping[str, int] = {}
    """How many steps each device has run."""


class ClientModelRuns:
    """The runs of all models that clients have loaded themselves. Safe to use from several threads.

    Steps count by the devices that ran them if the run was measured, else by the plan. A run that fell back without
    being measured counts no steps.
    """

    def __init__(self, run_log: RunLog | None = None) -> None:
        """``run_log`` is called for each run that is not direct."""
        self._run_log = run_log
        self._plans = _Plans()
        self._recorder = StatisticsRecorder()
        self._lock = threading.Lock()
        self._steps: Counter[tuple[str, ...]] = Counter()

    def of(self, model: str, client: str) -> RunWatcher:
        """The watcher of a model that a client has loaded under a name; the client is called ``client``."""
        return _RunsOfClientModel(self, model, client)

    def ran(self, model: str, client: str, context: Context, report: RunReport) -> None:
        planned = self._plans.of(context, context.prepared)
        steps, devices, copied = planned.steps, planned.devices, _copied_in(report, planned)
        if report.steps:
            steps = tuple([step.device for step in report.steps])
            devices = ",".join(dict.fromkeys(steps))
        elif report.fell_back:
            steps, devices = (), ""
        self._recorder.ran(report.duration_ns, 1, copied, report.fell_back)
        self._count(steps, 1)
        if self._run_log is not None:
            self._run_log.keep(_ended(model, "", client, time.monotonic_ns(), 1, devices, copied, report))

    def failed(self, model: str, client: str, duration_ns: int, error: BaseException) -> None:
        self._recorder.failed(FailureReason.BACKEND, duration_ns)
        if self._run_log is not None:
            self._run_log.keep(_failed(model, "", client, duration_ns, error))

    def ran_directly(self, context: Context, usage: RunUsage) -> None:
        """A client has run so much over a run channel."""
        planned = self._plans.of(context, context.direct_plan)
        self._recorder.counted(usage, 1, planned.copied.times(usage.runs))
        self._count(planned.steps, usage.runs)

    @property
    def counts(self) -> RequestCounts:
        return self._recorder.counts

    def usage(self) -> ClientModelUsage:
        counts, by_device = self.counts, Counter[str]()
        with self._lock:
            by_steps = list(self._steps.items())
        for steps, runs in by_steps:
            for device in steps:
                by_device[device] += runs
        return ClientModelUsage(RunUsage(counts.successes, counts.failed, counts.success_ns), by_device)

    def _count(self, steps: tuple[str, ...], runs: int) -> None:
        with self._lock:
            self._steps[steps] += runs


class _RunsOfClientModel:
    """The RunWatcher of one model of a client."""

    def __init__(self, runs: ClientModelRuns, model: str, client: str) -> None:
        self._runs = runs
        self._model = model
        self._client = client

    def ran(self, context: Context, report: RunReport) -> None:
        self._runs.ran(self._model, self._client, context, report)

    def failed(self, context: Context, duration_ns: int, error: BaseException) -> None:
        self._runs.failed(self._model, self._client, duration_ns, error)

    def ran_directly(self, context: Context, usage: RunUsage) -> None:
        self._runs.ran_directly(context, usage)


def _copied_in(report: RunReport, planned: _Planned) -> CopiedBytes:
    """Return what devices copied in a run: as it was measured, else by its plan."""
    return copied_by(report.ledger) if report.steps else planned.copied


def _ended(
    model: str,
    version: str,
    client: str,
    ended_ns: int,
    size: int,
    devices: str,
    copied: CopiedBytes,
    report: RunReport,
) -> EndedRun:
    began, fell_back = ended_ns - report.duration_ns, report.fell_back
    kept = None
    if report.steps or fell_back:
        kept, devices = report, devices if report.steps else ""
    return EndedRun(model, version, client, "", began, ended_ns, None, size, devices, copied, fell_back, "", 0, kept)


def _failed(model: str, version: str, client: str, duration_ns: int, error: BaseException) -> EndedRun:
    ended, reason = time.monotonic_ns(), str(error) or type(error).__name__
    return EndedRun(model, version, client, "", ended - duration_ns, ended, None, 1, "", NOTHING_COPIED, False, reason)
