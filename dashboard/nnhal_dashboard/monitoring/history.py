"""Counts of each second, and of the day before."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from nnhal.quantiles import summed
from nnhal_dashboard.monitoring.history_file import HistoryFile, KeptHistory
from nnhal_dashboard.monitoring.ring import Counts, Floats, Ring, RingSample, Stretches
from nnhal_pages.operating.counts import counts_since, models_since
from nnhal_pages.operating.snapshot import Snapshot

RECENT_SECONDS = 60
_LEAST_SECONDS = 0.5
"""Snapshots may follow each other at once if somebody has changed something: so little time makes no rate."""
_SAVED_SECONDS = 30.0
_OCCASIONS: Mapping[str, Sequence[str]] = {
    "requests/": (),
    "failures/": (),
    "fell_back/": (),
    "copied/": ("requests/",),
    "model.requests/": (),
    "model.failures/": (),
    "device.executions/": ("requests/",),
    "device.staged/": ("requests/",),
}
"""The rates, and what they belong to: several executions, and many bytes, are one request."""


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
    """True if the framework answered, so that the numbers above mean something."""
    models: dict[str, float] = field(default_factory=dict)
    """Requests a second by model; a model that was just loaded again is left out."""
    model_failures: dict[str, float] = field(default_factory=dict)
    """Requests that failed a second, by model, as above."""
    model_latency_ns: dict[str, float] = field(default_factory=dict)
    """The time that requests took on average, from arrival to answer; models of which none ended are left out."""
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


@dataclass(frozen=True, slots=True)
class RecentFigures:
    """Rates of the last minute: rates by second."""

    requests: float
    failures: float
    copied_bytes: float
    durations: list[int]
    """Requests by duration, as ``ModelCounts.durations``."""

    @classmethod
    def of(cls, history: History) -> RecentFigures:
        """Add the seconds up in which the framework answered."""
        samples = [sample for sample in history.samples(RECENT_SECONDS) if sample.is_known]
        count = max(len(samples), 1)
        return cls(
            sum(sample.requests for sample in samples) / count,
            sum(sample.failures for sample in samples) / count,
            sum(sample.copied_bytes for sample in samples) / count,
            summed(sample.durations for sample in samples),
        )


class History:
    """Samples of a day, of which the last minute as they were found. Safe to use from several threads."""

    def __init__(self, file: HistoryFile | None = None) -> None:
        """``file`` is where the values lie while no dashboard runs."""
        self._lock = threading.Lock()
        self._samples: deque[HistorySample] = deque(maxlen=RECENT_SECONDS)
        self._last: Snapshot | None = None
        self._file = file
        kept = file.read(_OCCASIONS) if file is not None else None
        self._ring = kept.ring if kept is not None else Ring(_OCCASIONS)
        self.kept_events = kept.events if kept is not None else ()
        """The events that were known when the file was written."""
        self._saved = time.monotonic()

    def add(self, snapshot: Snapshot) -> None:
        """Add what has happened since the snapshot before. One that follows at once waits for the next."""
        last = self._last
        if last is not None and 0 <= snapshot.at - last.at < _LEAST_SECONDS:
            return
        self._last = snapshot
        if last is None:
            return
        sample = _sample(last, snapshot)
        with self._lock:
            if snapshot.at < last.at:  # the clock was set back
                self._ring = Ring(_OCCASIONS)
                self._samples.clear()
                return
            self._samples.append(sample)
            self._ring.add(RingSample(sample.at, snapshot.at - last.at, _values(sample), sample.durations))
        if time.monotonic() - self._saved > _SAVED_SECONDS:
            self.save()

    def samples(self, seconds: int = RECENT_SECONDS) -> Sequence[HistorySample]:
        """Return the samples of the last seconds, the oldest first; they are kept for a minute."""
        with self._lock:
            kept = list(self._samples)
        since = kept[-1].at - seconds if kept else 0.0
        return [sample for sample in kept if sample.at > since]

    @property
    def end(self) -> float:
        """The instant of the last sample, in seconds since the epoch; 0 if there is none."""
        with self._lock:
            return max(0.0, float(self._ring.at[-1]))

    def names(self, kind: str) -> list[str]:
        """Return what has values of a kind: models, devices or processes, or "" for the testbed."""
        with self._lock:
            return self._ring.names(f"{kind}/")

    def track(self, kind: str, name: str, end: float, seconds: float, step: float) -> Stretches:
        """Return the values of a series before an instant, in stretches of ``step`` seconds."""
        with self._lock:
            return self._ring.stretches(f"{kind}/{name}", end, seconds, step)

    def durations(self, end: float, seconds: float, step: float) -> tuple[Floats, Counts]:
        """Return how many requests took how long before an instant: ends of stretches, and the counts of each."""
        with self._lock:
            return self._ring.counts(end, seconds, step)

    def save(self) -> None:
        """Have what is known outlast this process, if there is a place for it. For the thread that adds snapshots."""
        self._saved = time.monotonic()
        if self._file is not None and self._last is not None:
            self._file.write(KeptHistory(self._ring, self._last.events))


def _values(sample: HistorySample) -> dict[str, float]:
    """Return the values of a sample by the names of their series: the kind, a slash, and whose it is."""
    found: dict[str, float] = {}
    if sample.is_known:
        found = {
            "requests/": sample.requests,
            "failures/": sample.failures,
            "copied/": sample.copied_bytes,
            "fell_back/": sample.fell_back,
        }
    for kind, values in (
        ("model.requests", sample.models),
        ("model.failures", sample.model_failures),
        ("model.latency", sample.model_latency_ns),
        ("device.executions", sample.executions),
        ("device.busy", sample.busy),
        ("device.waiting", sample.waiting),
        ("device.staged", sample.staged_bytes),
        ("process.memory", sample.memory_bytes),
    ):
        for name, value in values.items():
            found[f"{kind}/{name}"] = float(value)
    return found


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
    counts = counts_since(last.framework.counts, now.framework.counts)
    if counts is None:
        return sample
    ended, failed, took = Counter[str](), Counter[str](), Counter[str]()
    anew = set()
    for (name, _), since in models_since(last.framework, now.framework).items():
        if since is None:
            anew.add(name)
            continue
        ended[name] += since.requests
        failed[name] += since.failures
        took[name] += since.duration_ns
    known = [name for name in ended if name not in anew]
    return replace(
        sample,
        requests=counts.requests / seconds,
        failures=counts.failures / seconds,
        copied_bytes=counts.copied_bytes / seconds,
        fell_back=counts.fell_back / seconds,
        durations=tuple(counts.durations),
        is_known=True,
        models={name: ended[name] / seconds for name in known},
        model_failures={name: failed[name] / seconds for name in known},
        model_latency_ns={name: max(0.0, took[name] / ended[name]) for name in known if ended[name]},
    )
