"""Durations of requests, as histograms and as quantiles of the latest requests."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence

from prometheus_client.core import HistogramMetricFamily, Metric, SummaryMetricFamily

from nnhal_service.observability.metrics.options import MetricsOptions
from nnhal_service.serving import RequestTiming

Key = tuple[str, str]
"""A model and its version."""
LABELS = ("model", "version")
_PARTS = {
    "request": "requests",
    "queue": "waiting in the queue",
    "compute_input": "copying inputs",
    "compute_infer": "running the model",
    "compute_output": "copying outputs",
}
KINDS = tuple(_PARTS)


class Durations:
    """The durations of every request that has succeeded. Safe to use from several threads."""

    def __init__(self, options: MetricsOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._models: dict[Key, list[DurationSeries]] = {}

    def record(self, key: Key, timing: RequestTiming) -> None:
        durations = (
            timing.output_ended_ns - timing.arrived_ns,
            timing.input_started_ns - timing.queued_ns,
            timing.run_started_ns - timing.input_started_ns,
            timing.run_ended_ns - timing.run_started_ns,
            timing.output_ended_ns - timing.run_ended_ns,
        )
        with self._lock:
            rows = self._models.get(key)
            if rows is None:
                rows = self._models[key] = [DurationSeries(self._options) for _ in KINDS]
            for row, duration in zip(rows, durations, strict=True):
                row.record(duration / 1e3)

    def take(self) -> dict[Key, list[DurationSeries]]:
        """Return what was recorded since the last call, which is forgotten here."""
        with self._lock:
            models, self._models = self._models, {}
            return models

    def add(self, models: Mapping[Key, Sequence[DurationSeries]]) -> None:
        """Add what was recorded elsewhere, with the same options."""
        with self._lock:
            for key, more in models.items():
                rows = self._models.get(key)
                if rows is None:
                    self._models[key] = list(more)
                    continue
                for row, other in zip(rows, more, strict=True):
                    row.merge(other)

    def forget(self, key: Key) -> None:
        with self._lock:
            self._models.pop(key, None)

    def families(self, served: Collection[Key]) -> Iterator[Metric]:
        with self._lock:
            rows = {key: [row.copy() for row in rows] for key, rows in self._models.items() if key in served}
        for number, kind in enumerate(KINDS):
            of_kind = {key: rows[key][number] for key in rows}
            if self._options.summary_latencies:
                yield self._summary(kind, of_kind)
            if self._options.histogram_latencies:
                name = f"nv_inference_{kind}_duration_histogram_us"
                yield self._histogram(name, f"Durations of {_PARTS[kind]}, microseconds", of_kind, 1)
        if self._options.histogram_latencies:
            of_requests = {key: rows[key][0] for key in rows}
            name = "nv_inference_first_response_histogram_ms"
            yield self._histogram(name, "Duration to the first response, milliseconds", of_requests, 1e3)

    def _summary(self, kind: str, rows: dict[Key, DurationSeries]) -> Metric:
        family = SummaryMetricFamily(
            f"nv_inference_{kind}_summary_us", f"Durations of {_PARTS[kind]}, microseconds", labels=LABELS
        )
        for key, row in rows.items():
            family.add_metric(key, row.count, row.total)
            labels = dict(zip(LABELS, key, strict=True))
            for quantile, value in zip(self._options.summary_quantiles, row.quantiles(), strict=True):
                family.add_sample(family.name, {**labels, "quantile": str(quantile)}, value)
        return family

    def _histogram(self, name: str, text: str, rows: dict[Key, DurationSeries], unit: float) -> Metric:
        """``unit`` is the metric's unit in microseconds."""
        family = HistogramMetricFamily(name, text, labels=LABELS)
        bounds = [*(str(bound / unit) for bound in self._options.histogram_buckets_us), "+Inf"]
        for key, row in rows.items():
            family.add_metric(key, list(zip(bounds, row.cumulative(), strict=True)), row.total / unit)
        return family


class DurationSeries:
    """One kind of duration of one model, in microseconds. ``total`` is the sum of all."""

    def __init__(self, options: MetricsOptions) -> None:
        self._options = options
        self._buckets = [0] * (len(options.histogram_buckets_us) + 1)
        self._last: deque[float] = deque(maxlen=options.summary_window)
        self.count = 0
        self.total = 0.0

    def record(self, duration: float) -> None:
        self.count += 1
        self.total += duration
        if self._options.histogram_latencies:
            self._buckets[bisect_left(self._options.histogram_buckets_us, duration)] += 1
        if self._options.summary_latencies:
            self._last.append(duration)

    def merge(self, more: DurationSeries) -> None:
        self.count += more.count
        self.total += more.total
        self._buckets = [ours + theirs for ours, theirs in zip(self._buckets, more._buckets, strict=True)]
        self._last.extend(more._last)

    def copy(self) -> DurationSeries:
        other = DurationSeries(self._options)
        other._buckets, other._last = [*self._buckets], self._last.copy()
        other.count, other.total = self.count, self.total
        return other

    def cumulative(self) -> Sequence[int]:
        counts, total = [], 0
        for count in self._buckets:
            total += count
            counts.append(total)
        return counts

    def quantiles(self) -> list[float]:
        """Return the quantiles, exact over the durations that are kept."""
        last = sorted(self._last)
        return [last[min(len(last) - 1, int(quantile * len(last)))] for quantile in self._options.summary_quantiles]
