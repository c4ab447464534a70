"""Counts of steps that ran on devices, and of bytes that passed over edges."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, Metric

from nnhal_service.observability.metrics.durations import LABELS, Key
from nnhal_service.serving import Executed

_Edge = tuple[str, str, str]
"""Source, destination and strategy."""
_Step = tuple[int, str]
"""The number of a step in the plan, and the device that ran it."""


class Runs:
    """Counts by model. Safe to use from several threads.

    A measured run counts its steps and edges as they ran, any other run as they were planned. A run that fell back and
    was not measured counts only as a fallback.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: dict[Key, RecordedRuns] = {}

    def record(self, executed: Executed) -> None:
        key, report = (executed.model_name, executed.model_version), executed.report
        with self._lock:
            model = self._models.get(key)
            if model is None:
                model = self._models[key] = RecordedRuns()
            model.fell_back += report.fell_back
            if report.steps:
                for step in report.steps:
                    model.measured[step.step, step.device].add(step.time_on_device_ns, step.duration_ns)
                for entry in report.ledger:
                    model.edges[entry.source, entry.destination, entry.strategy].add(entry.bytes, entry.copied_bytes)
            elif not report.fell_back:
                model.planned[executed.steps] += executed.runs
                runs = executed.runs
                for source, destination, strategy, size, copied in executed.edges:
                    sums = model.edges[source, destination, strategy]
                    sums.count += runs
                    sums.first += size * runs
                    sums.second += copied * runs

    def take(self) -> dict[Key, RecordedRuns]:
        """Return what was recorded since the last call, which is forgotten here."""
        with self._lock:
            models, self._models = self._models, {}
            return models

    def add(self, models: Mapping[Key, RecordedRuns]) -> None:
        with self._lock:
            for key, more in models.items():
                self._models.setdefault(key, RecordedRuns()).merge(more)

    def forget(self, key: Key) -> None:
        with self._lock:
            self._models.pop(key, None)

    def families(self, served: Collection[Key]) -> Iterator[Metric]:
        with self._lock:
            rows = {key: model.copy() for key, model in self._models.items() if key in served}
        yield from _step_families(rows)
        yield from _edge_families(rows)
        fallbacks = CounterMetricFamily(
            "nnhal_fallback_runs", "Runs in which a device executed steps of one that had failed", labels=LABELS
        )
        for key, model in rows.items():
            fallbacks.add_metric(key, model.fell_back)
        yield fallbacks


@dataclass(slots=True)
class _Sums:
    """A count and two sums."""

    count: int = 0
    first: int = 0
    second: int = 0

    def add(self, first: int, second: int) -> None:
        self.count += 1
        self.first += first
        self.second += second

    def merge(self, more: _Sums) -> None:
        self.count += more.count
        self.first += more.first
        self.second += more.second


class _Table(dict[tuple[int, str], _Sums]):
    """Sums by step."""

    def __missing__(self, key: _Step) -> _Sums:
        return self.setdefault(key, _Sums())


class _Edges(dict[_Edge, _Sums]):
    def __missing__(self, key: _Edge) -> _Sums:
        return self.setdefault(key, _Sums())


@dataclass(slots=True)
class RecordedRuns:
    """Counts of one version of a model. ``planned`` counts runs that were not measured, by their steps' devices."""

    fell_back: int = 0
    planned: Counter[tuple[str, ...]] = field(default_factory=Counter)
    measured: _Table = field(default_factory=_Table)
    edges: _Edges = field(default_factory=_Edges)

    def merge(self, more: RecordedRuns) -> None:
        self.fell_back += more.fell_back
        self.planned.update(more.planned)
        for step, sums in more.measured.items():
            self.measured[step].merge(sums)
        for edge, sums in more.edges.items():
            self.edges[edge].merge(sums)

    def copy(self) -> RecordedRuns:
        return RecordedRuns(
            self.fell_back,
            self.planned.copy(),
            _Table({key: _Sums(sums.count, sums.first, sums.second) for key, sums in self.measured.items()}),
            _Edges({key: _Sums(sums.count, sums.first, sums.second) for key, sums in self.edges.items()}),
        )


def _step_families(rows: dict[Key, RecordedRuns]) -> Iterator[Metric]:
    labels = (*LABELS, "partition", "device")
    runs = CounterMetricFamily("nnhal_partition_runs", "Runs of a step of a plan", labels=labels)
    measured = CounterMetricFamily("nnhal_partition_measured_runs", "Runs of a step that were measured", labels=labels)
    on_device = CounterMetricFamily(
        "nnhal_partition_device_seconds", "Time on the device of the runs that were measured", labels=labels
    )
    duration = CounterMetricFamily(
        "nnhal_partition_seconds", "Time of the runs that were measured, as the framework sees it", labels=labels
    )
    for key, model in rows.items():
        counts: Counter[_Step] = Counter({step: sums.count for step, sums in model.measured.items()})
        for devices, count in model.planned.items():
            for step in enumerate(devices):
                counts[step] += count
        for (number, device), count in sorted(counts.items()):
            runs.add_metric((*key, str(number), device), count)
        for (number, device), sums in sorted(model.measured.items()):
            row = (*key, str(number), device)
            measured.add_metric(row, sums.count)
            on_device.add_metric(row, sums.first / 1e9)
            duration.add_metric(row, sums.second / 1e9)
    yield from (runs, measured, on_device, duration)


def _edge_families(rows: dict[Key, RecordedRuns]) -> Iterator[Metric]:
    labels = (*LABELS, "source", "destination", "strategy")
    uses = CounterMetricFamily(
        "nnhal_edge_uses", "Values that passed over an edge; no device means the client", labels=labels
    )
    passed = CounterMetricFamily("nnhal_edge_bytes", "Bytes that passed over an edge", labels=labels)
    copied = CounterMetricFamily("nnhal_edge_copied_bytes", "Bytes that devices copied for an edge", labels=labels)
    for key, model in rows.items():
        for edge, sums in sorted(model.edges.items()):
            row = (*key, *edge)
            uses.add_metric(row, sums.count)
            passed.add_metric(row, sums.first)
            copied.add_metric(row, sums.second)
    yield from (uses, passed, copied)
