"""Small lines of the last minutes, for tables and tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from markupsafe import Markup

from nnhal_dashboard.monitoring.history import SECONDS, History, HistorySample
from nnhal_pages.charts.lines import sparkline
from nnhal_pages.charts.measures import BYTES, BYTES_PER_SECOND, COUNT, NANOSECONDS, PER_SECOND, SHARE, Measure
from nnhal_pages.charts.series import ChartSeries, TimeWindow

_KINDS: Mapping[str, tuple[str, Measure, Callable[[HistorySample], Mapping[str, float] | Mapping[str, int]]]] = {
    "model.requests": ("requests", PER_SECOND, lambda sample: sample.models),
    "model.failures": ("failures", PER_SECOND, lambda sample: sample.model_failures),
    "model.latency": ("latency", NANOSECONDS, lambda sample: sample.model_latency_ns),
    "device.executions": ("executions", PER_SECOND, lambda sample: sample.executions),
    "device.busy": ("busy", SHARE, lambda sample: sample.busy),
    "device.waiting": ("waiting executions", COUNT, lambda sample: sample.waiting),
    "device.staged": ("staged", BYTES_PER_SECOND, lambda sample: sample.staged_bytes),
    "process.memory": ("memory", BYTES, lambda sample: sample.memory_bytes),
}
"""What can be drawn: its name, its units, and where samples have it."""


def spark(history: History, kind: str, name: str, seconds: int = SECONDS) -> Markup:
    """Draw what a model, a device or a process did in the last seconds.

    Its label says what it is, with the last and the highest value. Raises KeyError if the kind is unknown.
    """
    what, measure, values = _KINDS[kind]
    samples = history.samples(seconds)
    points = [(sample.at, values(sample).get(name)) for sample in samples]
    window = TimeWindow(samples[-1].at if samples else 0.0, seconds)
    said = f"{what} in the last {seconds // 60} minutes"
    return Markup(sparkline(said, ChartSeries(name, points), measure, window).embedded())
