"""Counts of each second, and of the day before."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence

from nnhal.v1.framework_admin_pb2 import ModelCounts
from nnhal_dashboard.monitoring.history_file import HistoryFile, KeptHistory
from nnhal_dashboard.monitoring.ring import Counts, Floats, Ring, RingSample, Stretches
from nnhal_pages.operating.counts import counts_since, models_since
from nnhal_pages.operating.resources.history import device_rates
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
_OF_DEVICE = {
    "device.executions": "executions_per_second",
    "device.busy": "busy",
    "device.waiting": "waiting",
    "device.staged": "staged_bytes_per_second",
}
"""The series of a device, and what ``device_rates`` calls their values."""


class History:
    """Samples of a day, of which the last minute as they were found. Safe to use from several threads."""

    def __init__(self, file: HistoryFile | None = None) -> None:
        """``file`` is where the values lie while no dashboard runs."""
        self._lock = threading.Lock()
        self._samples: deque[RingSample] = deque(maxlen=RECENT_SECONDS)
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
            self._ring.add(sample)
        if time.monotonic() - self._saved > _SAVED_SECONDS:
            self.save()

    def samples(self, seconds: int = RECENT_SECONDS) -> Sequence[RingSample]:
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

    def series(self) -> list[tuple[str, str]]:
        """Return the kind of each series, and whose it is."""
        with self._lock:
            return [(kind, name) for kind, _, name in (each.partition("/") for each in self._ring.columns)]

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


def _sample(last: Snapshot, now: Snapshot) -> RingSample:
    """Return what was done since the snapshot before, by series: rates are by second, what is not known is left out."""
    seconds = now.at - last.at
    found: dict[str, float | None] = {
        f"process.memory/{process.name}": process.process.usage.resident_bytes
        for process in now.processes
        if process.process is not None and process.answers
    }
    for rates in device_rates(last, now):
        for kind, name in _OF_DEVICE.items():
            found[f"{kind}/{rates['name']}"] = rates[name]
    counts = None
    if last.framework is not None and now.framework is not None and last.framework is not now.framework:
        counts = counts_since(last.framework.counts, now.framework.counts)
    if counts is not None and last.framework is not None and now.framework is not None:
        found |= {
            "requests/": counts.requests / seconds,
            "failures/": counts.failures / seconds,
            "copied/": counts.copied_bytes / seconds,
            "fell_back/": counts.fell_back / seconds,
            **_of_models(models_since(last.framework, now.framework), seconds),
        }
    known = {name: float(value) for name, value in found.items() if value is not None}
    return RingSample(now.at, seconds, known, tuple(counts.durations) if counts is not None else ())


def _of_models(counted: Mapping[tuple[str, str], ModelCounts | None], seconds: float) -> dict[str, float]:
    """Return the values of models, all versions together; one that was just loaded again is left out."""
    found: dict[str, float] = {}
    for model in {name for name, _ in counted}:
        counts = [each for (name, _), each in counted.items() if name == model]
        known = [each for each in counts if each is not None]
        if len(known) < len(counts):
            continue
        requests = sum(each.requests for each in known)
        found[f"model.requests/{model}"] = requests / seconds
        found[f"model.failures/{model}"] = sum(each.failures for each in known) / seconds
        if requests:
            found[f"model.latency/{model}"] = max(0.0, sum(each.duration_ns for each in known) / requests)
    return found
