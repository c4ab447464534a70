"""Counts of each second, and of the day before."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nnhal_dashboard.monitoring.history_file import HistoryFile, KeptHistory
from nnhal_dashboard.monitoring.ring import Counts, Floats, Ring, RingSample, Stretches
from nnhal_pages.operating.counts import ModelCounted, framework_since, models_since
from nnhal_pages.operating.resources.history import device_rates
from nnhal_pages.operating.snapshot import Snapshot

RECENT_SECONDS = 60
_LEAST_SECONDS = 0.5
"""Snapshots may follow each other at once if somebody has changed something: so little time makes no rate."""
_SET_BACK_SECONDS = 60.0
"""A clock that is set back by less is waited for; by more, the history begins anew."""
_SAVED_SECONDS = 30.0
_GROWTH_SECONDS = 120
"""Growth is that between stretches of this time."""
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
    """Samples of a day. Safe to use from several threads."""

    def __init__(self, file: HistoryFile | None = None) -> None:
        """``file`` is where the values lie while no dashboard runs."""
        self._lock = threading.Lock()
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
        if last is not None and 0 <= snapshot.at_ns - last.at_ns < _LEAST_SECONDS * 1e9:
            return
        self._last = snapshot
        if last is None:
            return
        sample = _sample(last, snapshot)
        with self._lock:
            if snapshot.at < self._ring.at[-1] - _SET_BACK_SECONDS:
                self._ring = Ring(_OCCASIONS)
                return
            self._ring.add(sample)
        if time.monotonic() - self._saved > _SAVED_SECONDS:
            self.save()

    def recent(self, kind: str, name: str = "", seconds: float = RECENT_SECONDS) -> float | None:
        """Return the mean of a series in the last seconds; None if nothing is known."""
        with self._lock:
            return self._ring.recent(f"{kind}/{name}", seconds)

    @property
    def end(self) -> float:
        """The instant of the last sample, in seconds since the epoch; 0 if there is none."""
        with self._lock:
            return max(0.0, float(self._ring.at[-1]))

    def growth(self, kind: str, name: str) -> float | None:
        """Return by how much a series grew in an hour; None if it is not known for ten minutes.

        It is the difference between the means of its last minutes and of the first ones of the last hour.
        """
        track = self.track(kind, name, self.end, 3600, _GROWTH_SECONDS)
        known = np.flatnonzero(~np.isnan(track.mean))
        if len(known) < 2 or known[-1] - known[0] < 600 / _GROWTH_SECONDS:
            return None
        first, last = known[0], known[-1]
        return float((track.mean[last] - track.mean[first]) / (track.end[last] - track.end[first]) * 3600)

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


class _Rate(NamedTuple):
    """A rate of a series, and the time in seconds over which it was counted."""

    value: float
    seconds: float


def _sample(last: Snapshot, now: Snapshot) -> RingSample:
    """Return what was done since the snapshot before, by series: rates are by second, what is not known is left out.

    Rates are by the time of those who counted. A process that has not answered is not known until it does; then it says
    what it has done in all the time since its last answer.
    """
    seconds = (now.at_ns - last.at_ns) / 1e9
    found: dict[str, _Rate] = {
        f"process.memory/{process.name}": _Rate(process.process.usage.resident_bytes, seconds)
        for process in now.processes
        if process.process is not None and process.answers
    }
    for rates in device_rates(last, now):
        for kind, name in _OF_DEVICE.items():
            if rates[name] is not None:
                is_level = kind == "device.waiting"
                found[f"{kind}/{rates['name']}"] = _Rate(rates[name], seconds if is_level else rates["seconds"])
    durations: Sequence[int] = ()
    if last.framework is not None and now.framework is not None:
        counts, counted = framework_since(last.framework, now.framework)
        if counted:
            durations = tuple(counts.durations)
            rates_of_all = {
                "requests/": counts.requests,
                "failures/": counts.failures,
                "copied/": counts.copied_bytes,
                "fell_back/": counts.fell_back,
            }
            found |= {name: _Rate(count / counted, counted) for name, count in rates_of_all.items()}
            found |= _of_models(models_since(last.framework, now.framework))
    return RingSample(
        now.at,
        seconds,
        {name: float(rate.value) for name, rate in found.items()},
        durations,
        {name: rate.seconds for name, rate in found.items() if rate.seconds > seconds},
    )


def _of_models(counted: Mapping[tuple[str, str], ModelCounted]) -> dict[str, _Rate]:
    """Return the values of models, all versions together."""
    found: dict[str, _Rate] = {}
    for model in {name for name, _ in counted}:
        versions = [each for (name, _), each in counted.items() if name == model]
        seconds = max(each.seconds for each in versions)
        requests = sum(each.counts.requests for each in versions)
        found[f"model.requests/{model}"] = _Rate(requests / seconds, seconds)
        failures = sum(each.counts.failures for each in versions)
        found[f"model.failures/{model}"] = _Rate(failures / seconds, seconds)
        if requests:
            latency = sum(each.counts.duration_ns for each in versions) / requests
            found[f"model.latency/{model}"] = _Rate(max(0.0, latency), seconds)
    return found
