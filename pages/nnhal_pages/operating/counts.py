"""Counts between two answers of a process, and the time in which they were counted, by that process's clock.

Who asks may be held up, and so may who answers: the time between two answers is that of the process alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from nnhal.v1.admin_pb2 import GetDeviceResponse
from nnhal.v1.framework_admin_pb2 import FinishedRun, GetFrameworkResponse, ModelCounts

_NONE = ModelCounts()
_LEAST_SECONDS = 1.0
"""A process that has counted for less time than this says nothing yet about a second."""
_OF_DEVICE = ("executions_ended", "busy_ns", "staged_bytes", "wire_up_bytes", "wire_down_bytes")


class ModelCounted(NamedTuple):
    counts: ModelCounts
    seconds: float
    """0 if both answers are one: then nothing is known of the time since."""


class DeviceCounted(NamedTuple):
    counts: GetDeviceResponse
    """The counters alone."""
    seconds: float
    """As in ModelCounted."""


def framework_since(before: GetFrameworkResponse, now: GetFrameworkResponse) -> ModelCounted:
    """Return what all models together did between two answers; since its start if it was started between them."""
    return _counted(before, now, before.counts, now.counts)


def models_since(before: GetFrameworkResponse, now: GetFrameworkResponse) -> dict[tuple[str, str], ModelCounted]:
    """Return the same of each version of a model, by name and version; since it was loaded if that was between them."""
    known = {(model.name, model.version): model.counts for model in before.models}
    return {
        key: _counted(before, now, known.get(key, _NONE), model.counts)
        for model in now.models
        for key in [(model.name, model.version)]
    }


def devices_at_work(before: GetFrameworkResponse, now: GetFrameworkResponse) -> set[str]:
    """Return the devices that have run steps between two answers: those of models of which no run fell back."""
    done = models_since(before, now)
    counted = ((done[model.name, model.version].counts, model) for model in now.models)
    return {name for counts, model in counted if counts.runs and not counts.fell_back for name in model.devices}


def device_since(before: GetDeviceResponse, now: GetDeviceResponse) -> DeviceCounted:
    """Return the same of a device."""
    if before.since_ns != now.since_ns or before.executions_ended > now.executions_ended:
        counted = {name: getattr(now, name) for name in _OF_DEVICE}
    else:
        counted = {name: max(0, getattr(now, name) - getattr(before, name)) for name in _OF_DEVICE}
    return DeviceCounted(GetDeviceResponse(**counted), _seconds(before.at_ns, now.at_ns, now.since_ns))


def runs_counted(runs: Iterable[FinishedRun]) -> ModelCounts:
    """Count runs that have ended."""
    counts = ModelCounts()
    for run in runs:
        counts.copied.between += run.copied.between
        counts.copied.clients += run.copied.clients
        counts.copied.staged += run.copied.staged
        if run.error:
            counts.failures += 1
            continue
        counts.requests += 1
        counts.duration_ns += run.ended_ns - run.arrived_ns
        counts.runs += 1
        counts.run_ns += run.infer_ns
    return counts


def _counted(
    before: GetFrameworkResponse, now: GetFrameworkResponse, known: ModelCounts, counts: ModelCounts
) -> ModelCounted:
    seconds = _seconds(before.at_ns, now.at_ns, counts.since_ns)
    if known == counts:  # most models of a large repository
        return ModelCounted(_NONE, seconds)
    if known.since_ns != counts.since_ns or counts.requests < known.requests or counts.failures < known.failures:
        return ModelCounted(counts, seconds)
    since = ModelCounts()
    _subtract(known, counts, since)
    return ModelCounted(since, seconds)


def _seconds(before_ns: int, now_ns: int, since_ns: int) -> float:
    """Return how long was counted between two answers, of what counts since an instant."""
    between = max(0.0, (now_ns - before_ns) / 1e9)
    return min(between, max(_LEAST_SECONDS, (now_ns - since_ns) / 1e9))


def _subtract(before: Any, now: Any, since: Any) -> None:
    for field in now.DESCRIPTOR.fields:
        old, new = getattr(before, field.name), getattr(now, field.name)
        if field.message_type is not None:
            _subtract(old, new, getattr(since, field.name))
        elif isinstance(new, int):
            setattr(since, field.name, new - old)
        else:  # counts by range, of which an earlier answer may have fewer
            getattr(since, field.name).extend(max(0, b - a) for a, b in zip([*old, *[0] * len(new)], new, strict=False))
