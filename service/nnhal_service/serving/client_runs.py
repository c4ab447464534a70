"""Runs of clients that bring memory of their own: past the queue, and counted with all others.

What a client may bind is limited where it binds. Its runs are ordered among all others on the device.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from nnhal.types import RunUsage
from nnhal_service.fallback.edges import ASHMEM
from nnhal_service.runtime import PreparedPlan, RunReport
from nnhal_service.runtime.run.reports import Context
from nnhal_service.serving.observer import Executed, FailureReason, Observer
from nnhal_service.serving.planned import PlannedEdge, planned_edges, planned_steps
from nnhal_service.serving.request import RequestTiming
from nnhal_service.serving.statistics import StatisticsRecorder


class _Planned(NamedTuple):
    """What a run of a context does by plan."""

    prepared: PreparedPlan
    steps: tuple[str, ...]
    edges: tuple[PlannedEdge, ...]


class ClientRuns:
    """See RunWatcher. Each run counts as a request, and as an execution of its own.

    By plan, a client's memory is taken to be ashmem, which is what clients have.
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
        """See RunWatcher."""
        size, duration_ns = self._size(context), report.duration_ns
        ended = time.monotonic_ns()
        began = ended - duration_ns
        timing = RequestTiming(began, began, began, began, ended, ended)
        self._recorder.executed(size, 0, duration_ns, 0)
        self._recorder.succeeded(timing, size)
        self._tell(context, context.prepared, report, 1, timing)

    def failed(self, context: Context, duration_ns: int) -> None:
        """See RunWatcher."""
        self._recorder.failed(FailureReason.BACKEND, duration_ns)

    def ran_directly(self, context: Context, usage: RunUsage) -> None:
        """See RunWatcher."""
        self._recorder.counted(usage, self._size(context))
        if usage.runs:
            self._tell(context, context.direct_plan, RunReport(usage.duration_ns, 0), usage.runs)

    def _tell(
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
            edges = planned_edges(prepared, ASHMEM, context.lengths)
            planned = self._planned[context] = _Planned(prepared, planned_steps(prepared), edges)
        size = self._size(context)
        executed = Executed(self._name, self._version, size, report, planned.steps, planned.edges, runs, timing)
        for observer in self._observers:
            observer.executed(executed)

    def _size(self, context: Context) -> int:
        return context.items if self._has_batches else 1
