"""Records of each request in metrics; processes that serve together add theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nnhal_service.observability.metrics.durations import Durations, DurationSeries, Key
from nnhal_service.observability.metrics.options import MetricsOptions
from nnhal_service.observability.metrics.runs import RecordedRuns, Runs
from nnhal_service.serving import Executed, Finished


class RecordedRequests(NamedTuple):
    """Records of requests, by model and version."""

    runs: Mapping[Key, RecordedRuns]
    durations: Mapping[Key, Sequence[DurationSeries]]


class RequestMetrics:
    """An observer of served models. Safe to use from several threads."""

    def __init__(self, options: MetricsOptions) -> None:
        self.runs = Runs()
        self.durations = Durations(options)
        self._has_durations = options.summary_latencies or options.histogram_latencies

    def executed(self, executed: Executed) -> None:
        self.runs.record(executed)
        if self._has_durations and executed.timing is not None:
            self.durations.record((executed.model_name, executed.model_version), executed.timing)

    def finished(self, finished: Finished) -> None:
        if self._has_durations and finished.timing is not None:
            self.durations.record((finished.model_name, finished.model_version), finished.timing)

    def forget(self, model: str, version: str) -> None:
        self.runs.forget((model, version))
        self.durations.forget((model, version))

    def take(self) -> RecordedRequests:
        """Return what was recorded since the last call, which is forgotten here."""
        return RecordedRequests(self.runs.take(), self.durations.take())

    def add(self, recorded: RecordedRequests) -> None:
        """Add what was recorded elsewhere, with the same options."""
        self.runs.add(recorded.runs)
        self.durations.add(recorded.durations)
