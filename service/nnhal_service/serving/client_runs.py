"""Watchers of the runs of native clients, which bind their own memory and pass the queue by.

A client's bindings are limited when it binds. The device orders its runs among all others.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from nnhal.types import RunUsage
from nnhal_service.runtime import PreparedPlan, RunReport
from nnhal_service.runtime.run.reports import Context
from nnhal_service.serving.observer import Executed, FailureReason, Observer
from nnhal_service.serving.placement import PlannedEdge, planned_edges, planned_steps
from nnhal_service.serving.request import RequestTiming
from nnhal_service.serving.statistics import StatisticsRecorder

_FAILED = RunUsage(failed_runs=1)


class _Planned(NamedTuple):
    """What a run of a context does by its plan."""

    prepared: PreparedPlan
    steps: tuple[str, ...]
    edges: tuple[PlannedEdge, ...]


class ClientRuns:
    """The RunWatcher of a served model: each run counts as a request, and as a batch of its own.

    A client's memory is taken to be ashmem, which all clients use.
    """

    def __init__(
        self,
        name: str,
        version: str,
        has_batches: bool,
        recorder: StatisticsRecorder,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._name = name
        self._version = version
        self._has_batches = has_batches
        self._recorder = recorder
        self._observers = observers
        self._planned: WeakKeyDictionary[Context, _Planned] = WeakKeyDictionary()

    def ran(self, context: Context, report: RunReport) -> None:
        size, duration_ns = self._size(context), report.duration_ns
        ended = time.monotonic_ns()
        began = ended - duration_ns
        timing = RequestTiming(began, began, began, began, ended, ended)
        self._recorder.executed(size, 0, duration_ns, 0)
        self._recorder.succeeded(timing, size)
        self._notify(context, context.prepared, report, 1, timing)

    def failed(self, context: Context, duration_ns: int) -> None:
        self._recorder.failed(FailureReason.BACKEND, duration_ns)

    def ran_directly(self, context: Context, usage: RunUsage) -> None:
        self._recorder.counted(usage, self._size(context))
        if usage.runs:
            self._notify(context, context.direct_plan, RunReport(usage.duration_ns, 0), usage.runs)

    def _notify(
        self,
        context: Context,
        prepared: PreparedPlan,
        report: RunReport,
        runs: int,
        timing: RequestTiming | None = None,
    ) -> None:
        if not self._observers:
            return
        planned = self._planned.get(context)
        if planned is None or planned.prepared is not prepared:
            edges = planned_edges(prepared, {}, context.lengths)
            planned = self._planned[context] = _Planned(prepared, planned_steps(prepared), edges)
        size = self._size(context)
        executed = Executed(self._name, self._version, size, report, planned.steps, planned.edges, runs, timing)
        for observer in self._observers:
            observer.executed(executed)

    def _size(self, context: Context) -> int:
        return context.items if self._has_batches else 1


class ClientModelUsage(NamedTuple):
    """The runs since the start of all models that clients have loaded themselves."""

    runs: RunUsage = RunUsage()
    steps: Mapping[str, int] = {}
    """How many steps each device has run."""


class ClientModelRuns:
    """The RunWatcher of all models that clients have loaded themselves. Safe to use from several threads.

    Steps count by the devices that ran them if the run was measured, else by the plan. A run that fell back without
    being measured counts no steps.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = RunUsage()
        self._steps: Counter[str] = Counter()

    def ran(self, context: Context, report: RunReport) -> None:
        steps: Iterable[str] = [step.device for step in report.steps]
        if not report.steps and not report.fell_back:
            steps = planned_steps(context.prepared)
        self._count(RunUsage(1, 0, report.duration_ns), steps)

    def failed(self, context: Context, duration_ns: int) -> None:
        self._count(_FAILED, ())

    def ran_directly(self, context: Context, usage: RunUsage) -> None:
        self._count(usage, planned_steps(context.direct_plan))

    def usage(self) -> ClientModelUsage:
        """All runs so far."""
        with self._lock:
            return ClientModelUsage(self._runs, dict(self._steps))

    def _count(self, usage: RunUsage, steps: Iterable[str]) -> None:
        with self._lock:
            self._runs = RunUsage(*(before + more for before, more in zip(self._runs, usage, strict=True)))
            for device in steps:
                self._steps[device] += usage.runs
