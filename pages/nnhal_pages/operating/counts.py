"""Counts between two answers of the framework."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nnhal.v1.framework_admin_pb2 import FinishedRun, GetFrameworkResponse, ModelCounts

_NONE = ModelCounts()


def counts_since(before: ModelCounts, now: ModelCounts) -> ModelCounts | None:
    """Return what was counted since ``before``; None if it counts anew, since it was started or loaded again."""
    if before == now:  # most models of a large repository
        return _NONE
    if now.requests < before.requests or now.failures < before.failures:
        return None
    since = ModelCounts()
    _subtract(before, now, since)
    return since


def models_since(before: GetFrameworkResponse, now: GetFrameworkResponse) -> dict[tuple[str, str], ModelCounts | None]:
    """Return the same of each version of a model, by name and version."""
    known = {(model.name, model.version): model.counts for model in before.models}
    return {
        key: counts_since(known.get(key, _NONE), model.counts)
        for model in now.models
        for key in [(model.name, model.version)]
    }


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


def _subtract(before: Any, now: Any, since: Any) -> None:
    for field in now.DESCRIPTOR.fields:
        old, new = getattr(before, field.name), getattr(now, field.name)
        if field.message_type is not None:
            _subtract(old, new, getattr(since, field.name))
        elif isinstance(new, int):
            setattr(since, field.name, new - old)
        else:  # counts by range, of which an earlier answer may have fewer
            getattr(since, field.name).extend(max(0, b - a) for a, b in zip([*old, *[0] * len(new)], new, strict=False))
