"""How fast devices and models work: what their counters in two snapshots differ by."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.quantiles import quantile
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
    earlier = {(model.name, model.version): model for model in before.framework.models} if before.framework else {}
    nanoseconds = after.framework.at_ns - before.framework.at_ns if before.framework else 0
    rates = []
    for model in after.framework.models:
        then, now = earlier.get((model.name, model.version)), model.counts
        if then is not None and (nanoseconds <= 0 or then.counts.requests > now.requests):
            then = None  # it was loaded again
        counts: list[int] = []
        if then is not None:
            past = list(then.counts.durations) or [0] * len(now.durations)
            counts = [max(0, count - old) for count, old in zip(now.durations, past, strict=False)]
        rates.append(
            ModelRates(
                name=model.name,
                version=model.version,
                state=model.state,
                requests_per_second=then and (now.requests - then.counts.requests) * 1e9 / nanoseconds,
                failures_per_second=then and (now.failures - then.counts.failures) * 1e9 / nanoseconds,
                queued=model.queued,
                oldest_request_ns=model.oldest_request_ns,
                p50_ns=quantile(counts, 0.5),
                p99_ns=quantile(counts, 0.99),
            )
        )
    return rates
