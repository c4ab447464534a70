"""Measuring until the results are stable, as perf_analyzer does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np

from benchmarks.serve.load import Load, MeasurementWindow, joined
from benchmarks.serve.statistics import Read, Statistics, statistics_of
from benchmarks.serve.target import Target

PERCENTILES = (50, 90, 95, 99)
_STABLE_WINDOWS = 3
"""This many windows in a row must agree (perf_analyzer, "Measurement modes")."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to measure. ``percentile`` must be stable, or the mean if it is None; ``stability`` is in per cent."""

    interval_ms: int = 5000
    percentile: int | None = None
    stability: float = 10.0
    max_trials: int = 10


@dataclass(frozen=True, slots=True)
class Measurement:
    """One target at one concurrency."""

    target: Target
    """What was measured."""
    concurrency: int
    """Requests under way at a time."""
    requests: int
    """Number of requests."""
    throughput: float
    """Inferences per second."""
    mean_us: float
    """Mean latency."""
    deviation_us: float
    """Standard deviation of the latency."""
    percentiles_us: dict[int, float]
    """Latency by percentile."""
    send_us: float
    """The client's own work of sending a request."""
    receive_us: float
    """The client's own work of receiving an answer."""
    stable: bool
    """Whether the last windows agreed."""
    server: Statistics | None
    """The server's counts over the same time; None if it has no statistics."""

    def latency_us(self, percentile: int | None) -> float:
        """A percentile, or the mean."""
        return self.mean_us if percentile is None else self.percentiles_us[percentile]

    @property
    def network_us(self) -> float:
        """The time of a request that is neither the client's own work nor queue or computation on the server."""
        known = self.send_us + self.receive_us
        if self.server is not None:
            known += self.server.mean_us(self.server.request_ns - self.server.overhead_ns)
        return max(0.0, self.mean_us - known)

    def as_dict(self) -> dict[str, object]:
        """The measurement for JSON."""
        values = asdict(self)
        values["target"]["transport"] = str(self.target.transport)
        values["percentiles_us"] = {f"p{percent}": value for percent, value in self.percentiles_us.items()}
        return values


def measure(
    target: Target, concurrency: int, settings: Settings, advance: Callable[[], None] = lambda: None
) -> Measurement:
    """Measure windows until three in a row agree, or until the limit. Raises BenchError or OSError."""
    with Load([target] * concurrency) as load, statistics_of(target) as read:
        load.measure(min(1.0, settings.interval_ms / 1e3))
        windows: list[tuple[MeasurementWindow, Statistics | None]] = []
        while len(windows) < max(_STABLE_WINDOWS, settings.max_trials):
            windows.append(_window(load, read, settings))
            advance()
            if is_stable([window for window, _ in windows], settings):
                break
    last = windows[-_STABLE_WINDOWS:]
    return _summary(target, concurrency, settings, [window for window, _ in last], [server for _, server in last])


def is_stable(windows: list[MeasurementWindow], settings: Settings) -> bool:
    """Whether rates and latencies of the last three windows are within ``stability`` per cent of their means."""
    last = windows[-_STABLE_WINDOWS:]
    if len(last) < _STABLE_WINDOWS or any(not len(window.latencies) for window in last):
        return False
    percent = settings.percentile
    latencies = [float(_latency(window, percent)) for window in last]
    return all(_agree(values, settings.stability) for values in (latencies, [window.rate for window in last]))


def _latency(window: MeasurementWindow, percent: int | None) -> float:
    return float(np.mean(window.latencies) if percent is None else np.percentile(window.latencies, percent))


def _agree(values: list[float], percent: float) -> bool:
    mean = sum(values) / len(values)
    return all(abs(value - mean) <= mean * percent / 100 for value in values)


def _window(load: Load, read: Read, settings: Settings) -> tuple[MeasurementWindow, Statistics | None]:
    before = read()
    window = load.measure(settings.interval_ms / 1e3)
    after = read()
    return window, after.since(before) if before is not None and after is not None else None


def _summary(
    target: Target,
    concurrency: int,
    settings: Settings,
    windows: list[MeasurementWindow],
    server: list[Statistics | None],
) -> Measurement:
    whole = joined(windows)
    times = whole.latencies / 1e3
    count = max(1, len(times))
    wanted = sorted({*PERCENTILES, *([settings.percentile] if settings.percentile is not None else [])})
    return Measurement(
        target=target,
        concurrency=concurrency,
        requests=len(times),
        throughput=whole.rate * target.batch,
        mean_us=float(times.mean()),
        deviation_us=float(times.std()),
        percentiles_us={percent: float(np.percentile(times, percent)) for percent in wanted},
        send_us=whole.send_ns / count / 1e3,
        receive_us=whole.receive_ns / count / 1e3,
        stable=is_stable(windows, settings),
        server=_added(server),
    )


def _added(parts: list[Statistics | None]) -> Statistics | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or not known:
        return None
    total = known[0]
    for part in known[1:]:
        total = replace(total, **{name: getattr(total, name) + value for name, value in asdict(part).items()})
    return total
