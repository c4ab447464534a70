"""How fast devices and models work: what their counters in two snapshots differ by."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.quantiles import quantile
from nnhal_pages.operating.counts import models_since
from nnhal_pages.operating.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """A device between two snapshots."""

    name: str
    running: int
    waiting: int
    workers: int
    busy: float | None
    """The share of the time in which workers were busy, 0 to 1; None if it was restarted between the snapshots."""
    executions_per_second: float | None
    staged_bytes_per_second: float | None
    staged_bytes: int
    """Since it started."""
    buffer_bytes: int
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class ModelRates:
    """A version of a model between two snapshots."""

    name: str
    version: str
    state: str
    requests_per_second: float | None
    failures_per_second: float | None
    queued: int
    oldest_request_ns: int
    """How long the oldest request has waited or run until now; 0 if there is none."""
    p50_ns: float | None
    """The median of the requests between the snapshots; None if there were none."""
    p99_ns: float | None


def device_rates(before: Snapshot, after: Snapshot) -> list[DeviceRates]:
    """What each device did between two snapshots; devices that do not answer are left out."""
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
            DeviceRates(
                name=observed.name,
                running=device.running,
                waiting=device.waiting,
                workers=device.workers,
                busy=None if busy is None else min(1.0, max(0.0, busy / 1e9 / max(1, device.workers))),
                executions_per_second=rate(device.executions_ended - earlier.executions_ended),
                staged_bytes_per_second=rate(device.staged_bytes - earlier.staged_bytes),
                staged_bytes=device.staged_bytes,
                buffer_bytes=device.buffer_bytes,
                resident_bytes=process.usage.resident_bytes,
            )
        )
    return rates


def model_rates(before: Snapshot, after: Snapshot) -> list[ModelRates]:
    """What each version of a model did between two snapshots."""
    if after.framework is None:
        return []
    since = models_since(before.framework, after.framework) if before.framework is not None else {}
    seconds = (after.framework.at_ns - before.framework.at_ns) / 1e9 if before.framework is not None else 0.0
    rates = []
    for model in after.framework.models:
        counted = since.get((model.name, model.version)) if seconds > 0 else None
        rates.append(
            ModelRates(
                name=model.name,
                version=model.version,
                state=model.state,
                requests_per_second=None if counted is None else counted.requests / seconds,
                failures_per_second=None if counted is None else counted.failures / seconds,
                queued=model.queued,
                oldest_request_ns=model.oldest_request_ns,
                p50_ns=None if counted is None else quantile(counted.durations, 0.5),
                p99_ns=None if counted is None else quantile(counted.durations, 0.99),
            )
        )
    return rates
