"""How fast devices and models work: what two samples of their counters differ by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nnhal.errors import NnhalError
from nnhal.quantiles import quantile
from nnhal.v1 import admin_pb2, framework_admin_pb2
from nnhal_tools.operate.operator_session import OperatorSession


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """A device's counters at an instant."""

    device: admin_pb2.GetDeviceResponse
    process: admin_pb2.GetProcessResponse


@dataclass(frozen=True, slots=True)
class CounterSample:
    """All counters at about one instant."""

    devices: Mapping[str, DeviceSample | None]
    """By name; None for a device that does not answer."""
    framework: framework_admin_pb2.GetFrameworkResponse | None
    """None if there is no framework, or it does not answer."""


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """A device between two samples."""

    name: str
    running: int
    waiting: int
    workers: int
    busy: float | None
    """The share of the time in which workers were busy, 0 to 1; None if it was restarted between the samples."""
    executions_per_second: float | None
    staged_bytes_per_second: float | None
    staged_bytes: int
    """Since it started."""
    buffer_bytes: int
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class ModelRates:
    """A version of a model between two samples."""

    name: str
    version: str
    state: str
    requests_per_second: float | None
    failures_per_second: float | None
    queued: int
    oldest_request_ns: int
    """How long the oldest request has waited or run until now; 0 if there is none."""
    p50_ns: float | None
    """The median of the requests between the samples; None if there were none."""
    p99_ns: float | None


def take_sample(operator: OperatorSession) -> CounterSample:
    """Ask all devices and the framework. Raises NnhalError if there is nothing to ask."""
    devices: dict[str, DeviceSample | None] = {}
    framework = None
    for process in operator.processes():
        try:
            if process.kind == "device":
                devices[process.name] = None
                with operator.device(process) as admin:
                    devices[process.name] = DeviceSample(admin.device(), admin.process(brief=True))
            else:
                with operator.framework() as asked:
                    framework = asked.framework()
        except NnhalError:
            continue
    return CounterSample(devices, framework)


def device_rates(before: CounterSample, after: CounterSample) -> list[DeviceRates]:
    """What each device did between two samples; devices that do not answer are left out."""
    rates = []
    for name, now in after.devices.items():
        then = before.devices.get(name)
        if now is None:
            continue
        same = then is not None and then.process.started_ns == now.process.started_ns
        nanoseconds = now.process.at_ns - then.process.at_ns if then is not None and same else 0
        device, earlier = now.device, then.device if then is not None else now.device

        def rate(counted: int, nanoseconds: int = nanoseconds) -> float | None:
            return counted * 1e9 / nanoseconds if nanoseconds > 0 else None

        busy = rate(device.busy_ns - earlier.busy_ns)
        rates.append(
            DeviceRates(
                name=name,
                running=device.running,
                waiting=device.waiting,
                workers=device.workers,
                busy=None if busy is None else min(1.0, max(0.0, busy / 1e9 / max(1, device.workers))),
                executions_per_second=rate(device.executions_ended - earlier.executions_ended),
                staged_bytes_per_second=rate(device.staged_bytes - earlier.staged_bytes),
                staged_bytes=device.staged_bytes,
                buffer_bytes=device.buffer_bytes,
                resident_bytes=now.process.usage.resident_bytes,
            )
        )
    return rates


def model_rates(before: CounterSample, after: CounterSample) -> list[ModelRates]:
    """What each version of a model did between two samples."""
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
