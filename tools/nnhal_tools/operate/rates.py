"""Rates of devices and models: what their counters in two snapshots differ by."""

from __future__ import annotations

from typing import Any

from nnhal.quantiles import quantile
from nnhal_pages.operating.counts import models_since
from nnhal_pages.operating.snapshot import Snapshot

Rates = dict[str, Any]
"""As ``nnhal show rates --json`` prints them. A rate is None if its counter began anew between the snapshots."""


def device_rates(before: Snapshot, after: Snapshot) -> list[Rates]:
    """Return what each device did between two snapshots; devices that do not answer are left out.

    Of its workers, ``busy`` is the share of the time in which they were, 0 to 1. Bytes are those since it started.
    """
    rates = []
    for observed in after.devices:
        process, device, then = observed.process, observed.device, before.find(observed.name)
        if process is None or device is None:
            continue
        earlier, nanoseconds = device, 0
        if then is not None and then.process is not None and then.device is not None:
            earlier = then.device
            same = then.process.started_ns == process.started_ns
            nanoseconds = process.at_ns - then.process.at_ns if same else 0

        def rate(counted: int, nanoseconds: int = nanoseconds) -> float | None:
            return counted * 1e9 / nanoseconds if nanoseconds > 0 else None

        busy = rate(device.busy_ns - earlier.busy_ns)
        rates.append(
            {
                "name": observed.name,
                "running": device.running,
                "waiting": device.waiting,
                "workers": device.workers,
                "busy": None if busy is None else min(1.0, max(0.0, busy / 1e9 / max(1, device.workers))),
                "executions_per_second": rate(device.executions_ended - earlier.executions_ended),
                "staged_bytes_per_second": rate(device.staged_bytes - earlier.staged_bytes),
                "staged_bytes": device.staged_bytes,
                "buffer_bytes": device.buffer_bytes,
                "resident_bytes": process.usage.resident_bytes,
            }
        )
    return rates


def model_rates(before: Snapshot, after: Snapshot) -> list[Rates]:
    """Return what each version of a model did between two snapshots.

    ``oldest_request_ns`` is how long the oldest request has waited or run until now, 0 if there is none; the quantiles
    are those of the requests between the snapshots, None if there were none.
    """
    if after.framework is None:
        return []
    since = models_since(before.framework, after.framework) if before.framework is not None else {}
    seconds = (after.framework.at_ns - before.framework.at_ns) / 1e9 if before.framework is not None else 0.0
    rates = []
    for model in after.framework.models:
        counted = since.get((model.name, model.version)) if seconds > 0 else None
        rates.append(
            {
                "name": model.name,
                "version": model.version,
                "state": model.state,
                "requests_per_second": None if counted is None else counted.requests / seconds,
                "failures_per_second": None if counted is None else counted.failures / seconds,
                "queued": model.queued,
                "oldest_request_ns": model.oldest_request_ns,
                "p50_ns": None if counted is None else quantile(counted.durations, 0.5),
                "p99_ns": None if counted is None else quantile(counted.durations, 0.99),
            }
        )
    return rates
