"""What a model's executions are counted as, and who is told of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nnhal_service.serving.batch import BatchRun, copied_bytes_of
from nnhal_service.serving.observer import Executed, Observer
from nnhal_service.serving.statistics import StatisticsRecorder


class Executions:
    """Notes the executions of one model. Safe to use from several threads."""

    def __init__(self, name: str, version: str, statistics: StatisticsRecorder, observers: Sequence[Observer]) -> None:
        self._name = name
        self._version = version
        self._statistics = statistics
        self._observers = tuple(observers)
        self._ignores = False

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """Note nothing meanwhile. For one thread at a time."""
        self._ignores = True
        try:
            yield
        finally:
            self._ignores = False

    def note(self, run: BatchRun, output_ns: int) -> None:
        """Count a run whose outputs took so long, and tell the observers."""
        if self._ignores:
            return
        self._statistics.executed(
            run.batch_size,
            run.run_started_ns - run.input_started_ns,
            run.run_ended_ns - run.run_started_ns,
            output_ns,
            copied_bytes_of(run),
        )
        if self._observers:
            planned = run.planned
            executed = Executed(self._name, self._version, run.batch_size, run.report, planned.steps, planned.edges)
            for observer in self._observers:
                observer.executed(executed)
