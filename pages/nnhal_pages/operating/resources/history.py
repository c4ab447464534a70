"""What devices and models did between two looks: rates, from counters that only grow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nnhal.quantiles import quantile
from nnhal_pages.operating.counts import device_since, models_since
from nnhal_pages.operating.snapshot import Detail, ObservedProcess, Snapshot
from nnhal_pages.operating.table import Resource, ResourceColumn

Rates = dict[str, Any]
"""As JSON has them. A rate is None if the process has not answered since the first snapshot."""


def device_rates(before: Snapshot, after: Snapshot) -> Iterator[Rates]:
    """Yield what each device did between two snapshots; devices that do not answer are left out.

    ``seconds`` is the time by its own clock that rates are of. Of its workers, ``busy`` is the share of the time in
    which they were, 0 to 1. Bytes are those since it started.
    """
    for observed in after.devices:
        if observed.device is not None and observed.answers:
            yield _of_device(before.find(observed.name), observed)


def _of_device(then: ObservedProcess | None, now: ObservedProcess) -> Rates:
    device, earlier = now.device, then.device if then is not None else None
    assert device is not None, now
    counts, seconds = device_since(earlier, device) if earlier is not None else (device, 0.0)

    def rate(count: float) -> float | None:
        return count / seconds if seconds else None

    busy = rate(counts.busy_ns / 1e9 / max(1, device.workers))
    return {
        "name": now.name,
        "seconds": seconds,
        "running": device.running,
        "waiting": device.waiting,
        "workers": device.workers,
        "busy": busy if busy is None else min(1.0, busy),
        "executions_per_second": rate(counts.executions_ended),
        "staged_bytes_per_second": rate(counts.staged_bytes),
        "staged_bytes": device.staged_bytes,
        "buffer_bytes": device.buffer_bytes,
        "resident_bytes": now.process.usage.resident_bytes if now.process is not None else None,
    }


def model_rates(before: Snapshot, after: Snapshot) -> Iterator[Rates]:
    """Yield what each version of a model did between two snapshots, by the time of the framework.

    ``oldest_request_ns`` is how long the oldest request has waited or run until now, 0 if there is none; the mean and
    the quantiles are those of the requests between the snapshots, None if there were none.
    """
    if after.framework is None or before.framework is None:
        return
    since = models_since(before.framework, after.framework)
    for model in after.framework.models:
        counts, seconds = since[model.name, model.version]
        yield {
            "name": model.name,
            "version": model.version,
            "state": model.state,
            "requests_per_second": counts.requests / seconds if seconds else None,
            "failures_per_second": counts.failures / seconds if seconds else None,
            "queued": model.queued,
            "oldest_request_ns": model.oldest_request_ns,
            "p50_ns": quantile(counts.durations, 0.5),
            "p99_ns": quantile(counts.durations, 0.99),
        }


def _of(head: str, name: str, unit: str = "") -> ResourceColumn:
    return ResourceColumn(head, lambda rates: rates[name], unit, "-")


DEVICE_RATES = Resource(
    "devices",
    "How busy devices are.",
    (
        _of("device", "name"),
        ResourceColumn("runs", lambda rates: f"{rates['running']}/{rates['workers']}"),
        _of("waits", "waiting"),
        _of("busy", "busy", "%"),
        _of("executions/s", "executions_per_second", "1/s"),
        _of("staged/s", "staged_bytes_per_second", "B"),
        _of("staged", "staged_bytes", "B"),
        _of("buffers", "buffer_bytes", "B"),
        _of("memory", "resident_bytes", "B"),
    ),
    "no devices",
    value=dict,
    needs=Detail.PROCESSES,
)
MODEL_RATES = Resource(
    "models",
    "How fast models answer.",
    (
        _of("model", "name"),
        _of("version", "version"),
        _of("state", "state"),
        _of("requests/s", "requests_per_second", "1/s"),
        _of("failures/s", "failures_per_second", "1/s"),
        _of("queued", "queued"),
        ResourceColumn("oldest", lambda rates: rates["oldest_request_ns"] or None, "ns, waited", "-"),
        _of("p50", "p50_ns", "ns"),
        _of("p99", "p99_ns", "ns"),
    ),
    "no models are served",
    value=dict,
    needs=Detail.PROCESSES,
)
