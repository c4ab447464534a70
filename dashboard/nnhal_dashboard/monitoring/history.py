"""The last 15 minutes, a second at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from nnhal.v1 import framework_admin_pb2
from nnhal_dashboard.monitoring.snapshot import Snapshot

SECONDS = 900


@dataclass(frozen=True, slots=True)
class HistorySample:
    """One second: what was done since the sample before it. Rates are by second."""

    at: float
    """Seconds since the epoch."""
    requests: float = 0.0
    failures: float = 0.0
    copied_bytes: float = 0.0
    fell_back: float = 0.0
    durations: tuple[int, ...] = ()
    """Requests by duration, as ``ModelCounts.durations``, since the sample before."""
    is_known: bool = False
    """Whether the framework answered, so that the numbers above mean something."""
    models: dict[str, float] = field(default_factory=dict)
    """Requests a second by model; a model that was just loaded again is left out."""
    model_failures: dict[str, float] = field(default_factory=dict)
    """Requests that failed a second, by model, as above."""
    model_latency_ns: dict[str, float] = field(default_factory=dict)
    """How long requests took on average, from arrival to answer; models of which none ended are left out."""
    executions: dict[str, float] = field(default_factory=dict)
    """Executions a second by device; a device that does not answer is left out."""
    busy: dict[str, float] = field(default_factory=dict)
    """The share of its workers' time that each device computed."""
    waiting: dict[str, int] = field(default_factory=dict)
    """Executions that wait for a worker, by device."""
    staged_bytes: dict[str, float] = field(default_factory=dict)
    """Bytes staged a second, by device."""
    memory_bytes: dict[str, int] = field(default_factory=dict)
    """Resident bytes by process, if they were asked for."""


class History:
    """Samples of the last ``SECONDS`` seconds. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: deque[HistorySample] = deque(maxlen=SECONDS)
        self._last: Snapshot | None = None

    def add(self, snapshot: Snapshot) -> None:
        """Add what has happened since the snapshot before."""
        last, self._last = self._last, snapshot
        if last is None:
            return
        sample = _sample(last, snapshot)
        with self._lock:
            self._samples.append(sample)

    def samples(self, seconds: int = SECONDS) -> Sequence[HistorySample]:
        """Return the samples of the last seconds, the oldest first."""
        with self._lock:
            kept = list(self._samples)
        since = kept[-1].at - seconds if kept else 0.0
        return [sample for sample in kept if sample.at > since]


def _sample(last: Snapshot, now: Snapshot) -> HistorySample:
    seconds = max(now.at - last.at, 1e-3)
    before = {process.name: process for process in last.processes}
    executions, busy, waiting, staged, memory = {}, {}, {}, {}, {}
    for process in now.processes:
        if process.process is not None and process.answers:
            memory[process.name] = process.process.usage.resident_bytes
        old, new = before.get(process.name), process.device
        if new is None or not process.answers:
            continue
        waiting[process.name] = new.waiting
        if old is None or old.device is None or old.device.executions_ended > new.executions_ended:
            continue  # it is new, or was started again
        executions[process.name] = (new.executions_ended - old.device.executions_ended) / seconds
        staged[process.name] = (new.staged_bytes - old.device.staged_bytes) / seconds
        busy[process.name] = (new.busy_ns - old.device.busy_ns) / 1e9 / seconds / max(new.workers, 1)
    sample = HistorySample(
        now.at, executions=executions, busy=busy, waiting=waiting, staged_bytes=staged, memory_bytes=memory
    )
    if last.framework is None or now.framework is None or last.framework is now.framework:
        return sample
    old_counts, counts = last.framework.counts, now.framework.counts
    if counts.requests < old_counts.requests:  # the framework was started again
        return sample
    before_models, models = _counts_by_model(last.framework), _counts_by_model(now.framework)
    rates: dict[str, float] = {}
    failed: dict[str, float] = {}
    latencies: dict[str, float] = {}
    for name, after in models.items():
        earlier = before_models.get(name, _ModelSums())
        ended = after.requests - earlier.requests
        if ended < 0 or after.failures < earlier.failures:
            continue  # a model that was loaded again counts anew
        rates[name], failed[name] = ended / seconds, (after.failures - earlier.failures) / seconds
        if ended:
            latencies[name] = max(0.0, (after.duration_ns - earlier.duration_ns) / ended)
    return replace(
        sample,
        requests=(counts.requests - old_counts.requests) / seconds,
        failures=(counts.failures - old_counts.failures) / seconds,
        copied_bytes=(counts.copied_bytes - old_counts.copied_bytes) / seconds,
        fell_back=(counts.fell_back - old_counts.fell_back) / seconds,
        durations=_added(old_counts.durations, counts.durations),
        is_known=True,
        models=rates,
        model_failures=failed,
        model_latency_ns=latencies,
    )


class _ModelSums(NamedTuple):
    """What all versions of a model have done."""

    requests: int = 0
    failures: int = 0
    duration_ns: int = 0


def _counts_by_model(framework: framework_admin_pb2.GetFrameworkResponse) -> dict[str, _ModelSums]:
    found: dict[str, _ModelSums] = {}
    for model in framework.models:
        known, counts = found.get(model.name, _ModelSums()), model.counts
        found[model.name] = _ModelSums(
            known.requests + counts.requests,
            known.failures + counts.failures,
            known.duration_ns + counts.duration_ns,
        )
    return found


def _added(old: Sequence[int], new: Sequence[int]) -> tuple[int, ...]:
    before = [*old, *[0] * (len(new) - len(old))]
    return tuple(max(0, after - count) for after, count in zip(new, before, strict=False))
