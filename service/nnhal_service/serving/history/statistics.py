"""Counts and durations of a model's requests, in the terms of the statistics extension."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from nnhal.admin import DURATION_BOUNDS_NS
from nnhal.clock import now_ns
from nnhal.reports import NOTHING_COPIED, CopiedBytes
from nnhal.types import RunUsage
from nnhal_service.serving.history.observer import Executed, FailureReason, Observer, OfRequests
from nnhal_service.serving.queue.batch import BatchRun
from nnhal_service.serving.requests.request import RequestTiming


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
    copied: CopiedBytes = NOTHING_COPIED


@dataclass(slots=True)
class RequestCounts:
    """Counts of one model."""

    last_inference_ns: int = 0
    """Nanoseconds since 1970; 0 before the first inference."""
    inferences: int = 0
    executions: int = 0
    successes: int = 0
    success_ns: int = 0
    queue_ns: int = 0
    input_ns: int = 0
    infer_ns: int = 0
    output_ns: int = 0
    fail_ns: int = 0
    failures: dict[FailureReason, int] = field(default_factory=lambda: dict.fromkeys(FailureReason, 0))
    batches: dict[int, list[int]] = field(default_factory=dict)
    """By batch size: the runs, and the nanoseconds of their inputs, their inference and their outputs."""
    between_bytes: int = 0
    """Bytes that were copied in all runs, as the next two: see CopiedBytes."""
    client_bytes: int = 0
    staged_bytes: int = 0
    fell_back: int = 0
    """Requests whose run fell back."""
    durations: list[int] = field(default_factory=lambda: [0] * (len(DURATION_BOUNDS_NS) + 1))
    """Requests that succeeded: how many took less than each of DURATION_BOUNDS_NS, and how many took longer."""
    since_ns: int = field(default_factory=now_ns, compare=False)
    """From when on they count, by CLOCK_BOOTTIME."""

    def batch(self, size: int) -> list[int]:
        row = self.batches.get(size)
        if row is None:
            row = self.batches[size] = [0, 0, 0, 0]
        return row

    def add(self, more: RequestCounts) -> None:
        self.last_inference_ns = max(self.last_inference_ns, more.last_inference_ns)
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(more, name))
        for reason, count in more.failures.items():
            self.failures[reason] += count
        for size, numbers in more.batches.items():
            row = self.batch(size)
            row[:] = map(sum, zip(row, numbers, strict=True))
        self.durations[:] = map(sum, zip(self.durations, more.durations, strict=True))

    def copy(self) -> RequestCounts:
        batches = {size: list(row) for size, row in self.batches.items()}
        return replace(self, failures=dict(self.failures), batches=batches, durations=list(self.durations))

    def copy_more(self, copied: CopiedBytes) -> None:
        self.between_bytes += copied.between
        self.client_bytes += copied.clients
        self.staged_bytes += copied.staged

    @property
    def copied(self) -> CopiedBytes:
        """Return what was copied in all runs: into the instances' memory, and by devices."""
        return CopiedBytes(self.between_bytes, self.client_bytes, self.staged_bytes)

    @property
    def run_ns(self) -> int:
        """The time of all runs on devices, in nanoseconds; ``executions`` is their number."""
        return sum(row[2] for row in self.batches.values())

    @property
    def failed(self) -> int:
        return sum(self.failures.values())


_SUMS = (
    "inferences",
    "executions",
    "successes",
    "success_ns",
    "queue_ns",
    "input_ns",
    "infer_ns",
    "output_ns",
    "fail_ns",
    "between_bytes",
    "client_bytes",
    "staged_bytes",
    "fell_back",
)


class StatisticsRecorder:
    """Counts requests and runs. Safe to use from several threads; a snapshot is of one moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = RequestCounts()

    def executed(
        self, batch_size: int, input_ns: int, infer_ns: int, output_ns: int, copied: CopiedBytes = NOTHING_COPIED
    ) -> None:
        with self._lock:
            counts = self._counts
            counts.executions += 1
            counts.between_bytes += copied.between
            counts.client_bytes += copied.clients
            counts.staged_bytes += copied.staged
            batch = counts.batches.get(batch_size) or counts.batch(batch_size)
            batch[0] += 1
            batch[1] += input_ns
            batch[2] += infer_ns
            batch[3] += output_ns

    def succeeded(self, timing: RequestTiming, size: int, fell_back: bool = False) -> None:
        """Count a request of ``size`` items that has succeeded."""
        now = time.time_ns()
        duration_ns = timing.output_ended_ns - timing.arrived_ns
        with self._lock:
            counts = self._counts
            counts.last_inference_ns = now
            counts.inferences += size
            counts.successes += 1
            counts.success_ns += duration_ns
            counts.durations[bisect_right(DURATION_BOUNDS_NS, duration_ns)] += 1
            counts.fell_back += fell_back
            counts.queue_ns += timing.input_started_ns - timing.queued_ns
            counts.input_ns += timing.run_started_ns - timing.input_started_ns
            counts.infer_ns += timing.run_ended_ns - timing.run_started_ns
            counts.output_ns += timing.output_ended_ns - timing.run_ended_ns

    def ran(self, duration_ns: int, size: int, copied: CopiedBytes, fell_back: bool) -> None:
        """Count a run of ``size`` items that is a request as a whole: it has waited for nothing, and succeeded."""
        now = time.time_ns()
        with self._lock:
            counts = self._counts
            counts.last_inference_ns = now
            counts.inferences += size
            counts.executions += 1
            counts.successes += 1
            counts.success_ns += duration_ns
            counts.infer_ns += duration_ns
            counts.copy_more(copied)
            counts.fell_back += fell_back
            counts.durations[bisect_right(DURATION_BOUNDS_NS, duration_ns)] += 1
            batch = counts.batch(size)
            batch[0] += 1
            batch[2] += duration_ns

    def counted(self, usage: RunUsage, size: int, copied: CopiedBytes = NOTHING_COPIED) -> None:
        """Count direct runs of ``size`` items each, each of them a run and a request, that have copied so much.

        Of their durations only the sum is known: each counts with the mean.
        """
        now = time.time_ns()
        with self._lock:
            counts = self._counts
            counts.failures[FailureReason.BACKEND] += usage.failed_runs
            if not usage.runs:
                return
            counts.last_inference_ns = now
            counts.executions += usage.runs
            counts.inferences += usage.runs * size
            counts.successes += usage.runs
            counts.success_ns += usage.duration_ns
            counts.durations[bisect_right(DURATION_BOUNDS_NS, usage.duration_ns // usage.runs)] += usage.runs
            counts.copy_more(copied)
            counts.infer_ns += usage.duration_ns
            batch = counts.batch(size)
            batch[0] += usage.runs
            batch[2] += usage.duration_ns

    def failed(self, reason: FailureReason, duration_ns: int) -> None:
        """Count a request that has failed after ``duration_ns``."""
        with self._lock:
            self._counts.failures[reason] += 1
            self._counts.fail_ns += duration_ns

    @property
    def has_counted(self) -> bool:
        """Return whether anything was counted since ``take``."""
        counts = self._counts
        return bool(counts.executions or counts.fail_ns)

    def take(self) -> RequestCounts:
        """Return what was counted since the last call, which is forgotten here."""
        with self._lock:
            counts, self._counts = self._counts, RequestCounts()
            return counts

    def add(self, counts: RequestCounts) -> None:
        with self._lock:
            self._counts.add(counts)

    @property
    def counts(self) -> RequestCounts:
        with self._lock:
            return self._counts.copy()

    def snapshot(self, pending: int) -> ModelStatistics:
        with self._lock:
            counts = self._counts
            successes = counts.successes
            return ModelStatistics(
                counts.last_inference_ns // 1_000_000,
                counts.inferences,
                counts.executions,
                DurationStatistics(successes, counts.success_ns),
                DurationStatistics(sum(counts.failures.values()), counts.fail_ns),
                DurationStatistics(successes, counts.queue_ns),
                DurationStatistics(successes, counts.input_ns),
                DurationStatistics(successes, counts.infer_ns),
                DurationStatistics(successes, counts.output_ns),
                {size: _batch(*numbers) for size, numbers in sorted(counts.batches.items())},
                dict(counts.failures),
                pending,
                counts.copied,
            )


def _batch(count: int, input_ns: int, infer_ns: int, output_ns: int) -> BatchStatistics:
    return BatchStatistics(*(DurationStatistics(count, ns) for ns in (input_ns, infer_ns, output_ns)))


class Executions:
    """Notes the executions of one model. Safe to use from several threads."""

    def __init__(self, name: str, version: str, statistics: StatisticsRecorder, observers: Sequence[Observer]) -> None:
        self._name = name
        self._version = version
        self._statistics = statistics
        self._observers = tuple(observer for observer in observers if not isinstance(observer, OfRequests))
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
            run.account.copied,
        )
        if self._observers:
            planned = run.account.planned
            executed = Executed(self._name, self._version, run.batch_size, run.report, planned.steps, planned.edges)
            for observer in self._observers:
                observer.executed(executed)
