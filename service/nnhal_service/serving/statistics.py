"""Counts and durations of a model's requests, in the terms of the statistics extension."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from nnhal.types import RunUsage
from nnhal_service.serving.observer import FailureReason
from nnhal_service.serving.request import RequestTiming


@dataclass(frozen=True, slots=True)
class DurationStatistics:
    """A count, and the sum of the durations."""

    count: int = 0
    ns: int = 0


@dataclass(frozen=True, slots=True)
class BatchStatistics:
    """The runs of one batch size. Each counts once, however many requests it served."""

    compute_input: DurationStatistics
    compute_infer: DurationStatistics
    compute_output: DurationStatistics


@dataclass(frozen=True, slots=True)
class ModelStatistics:
    """All requests since the model was loaded, as of one moment."""

    last_inference_ms: int
    """Milliseconds since 1970; 0 before the first inference."""
    inference_count: int
    """The items of all batches."""
    execution_count: int
    """The runs on devices."""
    success: DurationStatistics
    fail: DurationStatistics
    queue: DurationStatistics
    """The wait of the successful requests, as the next three are their parts; each has those of its whole batch."""
    compute_input: DurationStatistics
    compute_infer: DurationStatistics
    compute_output: DurationStatistics
    batches: Mapping[int, BatchStatistics]
    """By batch size."""
    failures: Mapping[FailureReason, int]
    pending: int
    """The requests that wait in the queue."""


class StatisticsRecorder:
    """Counts requests and runs. Safe to use from several threads; a snapshot is of one moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_inference_ns = 0
        self._inferences = 0
        self._executions = 0
        self._successes = 0
        self._success_ns = 0
        self._queue_ns = 0
        self._input_ns = 0
        self._infer_ns = 0
        self._output_ns = 0
        self._fail_ns = 0
        self._failures = dict.fromkeys(FailureReason, 0)
        self._batches: dict[int, list[int]] = {}

    def executed(self, batch_size: int, input_ns: int, infer_ns: int, output_ns: int) -> None:
        """Count a run that has succeeded."""
        with self._lock:
            self._executions += 1
            batch = self._batches.get(batch_size)
            if batch is None:
                batch = self._batches[batch_size] = [0, 0, 0, 0]
            batch[0] += 1
            batch[1] += input_ns
            batch[2] += infer_ns
            batch[3] += output_ns

    def succeeded(self, timing: RequestTiming, size: int) -> None:
        """Count a request of ``size`` items that has succeeded."""
        now = time.time_ns()
        with self._lock:
            self._last_inference_ns = now
            self._inferences += size
            self._successes += 1
            self._success_ns += timing.output_ended_ns - timing.arrived_ns
            self._queue_ns += timing.input_started_ns - timing.queued_ns
            self._input_ns += timing.run_started_ns - timing.input_started_ns
            self._infer_ns += timing.run_ended_ns - timing.run_started_ns
            self._output_ns += timing.output_ended_ns - timing.run_ended_ns

    def counted(self, usage: RunUsage, size: int) -> None:
        """Count direct runs of ``size`` items each, each of them a run and a request."""
        now = time.time_ns()
        with self._lock:
            self._failures[FailureReason.BACKEND] += usage.failed_runs
            if not usage.runs:
                return
            self._last_inference_ns = now
            self._executions += usage.runs
            self._inferences += usage.runs * size
            self._successes += usage.runs
            self._success_ns += usage.duration_ns
            self._infer_ns += usage.duration_ns
            batch = self._batches.setdefault(size, [0, 0, 0, 0])
            batch[0] += usage.runs
            batch[2] += usage.duration_ns

    def failed(self, reason: FailureReason, duration_ns: int) -> None:
        """Count a request that has failed after ``duration_ns``."""
        with self._lock:
            self._failures[reason] += 1
            self._fail_ns += duration_ns

    def snapshot(self, pending: int) -> ModelStatistics:
        """All counts so far."""
        with self._lock:
            count = self._successes
            return ModelStatistics(
                self._last_inference_ns // 1_000_000,
                self._inferences,
                self._executions,
                DurationStatistics(count, self._success_ns),
                DurationStatistics(sum(self._failures.values()), self._fail_ns),
                DurationStatistics(count, self._queue_ns),
                DurationStatistics(count, self._input_ns),
                DurationStatistics(count, self._infer_ns),
                DurationStatistics(count, self._output_ns),
                {size: _batch(*numbers) for size, numbers in sorted(self._batches.items())},
                dict(self._failures),
                pending,
            )


def _batch(count: int, input_ns: int, infer_ns: int, output_ns: int) -> BatchStatistics:
    return BatchStatistics(*(DurationStatistics(count, ns) for ns in (input_ns, infer_ns, output_ns)))
