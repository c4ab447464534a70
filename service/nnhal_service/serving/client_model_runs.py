"""Runs of models that clients have loaded themselves, which are none of the repository's."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from nnhal.types import RunUsage
from nnhal_service.runtime import RunReport
from nnhal_service.runtime.run.reports import Context
from nnhal_service.serving.planned import planned_steps

_FAILED = RunUsage(failed_runs=1)


class ClientModelUsage(NamedTuple):
    """What has been run of all these models since the start: runs as such, and how many steps each device ran."""

    runs: RunUsage = RunUsage()
    steps: Mapping[str, int] = {}


class ClientModelRuns:
    """See RunWatcher. Safe to use from several threads.

    Steps count as they were measured, else as they were planned; not where a device stood in and nothing was measured.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = RunUsage()
        self._steps: Counter[str] = Counter()

    def ran(self, context: Context, report: RunReport) -> None:
        """See RunWatcher."""
        steps: Iterable[str] = [step.device for step in report.steps]
        if not report.steps and not report.fell_back:
            steps = planned_steps(context.prepared)
        self._count(RunUsage(1, 0, report.duration_ns), steps)

    def failed(self, context: Context, duration_ns: int) -> None:
        """See RunWatcher."""
        self._count(_FAILED, ())

    def ran_directly(self, context: Context, usage: RunUsage) -> None:
        """See RunWatcher."""
        self._count(usage, planned_steps(context.direct_plan))

    def usage(self) -> ClientModelUsage:
        """Everything so far."""
        with self._lock:
            return ClientModelUsage(self._runs, dict(self._steps))

    def _count(self, usage: RunUsage, steps: Iterable[str]) -> None:
        with self._lock:
            self._runs = RunUsage(*(before + more for before, more in zip(self._runs, usage, strict=True)))
            for device in steps:
                self._steps[device] += usage.runs
