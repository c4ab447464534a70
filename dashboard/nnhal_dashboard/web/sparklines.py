"""Small lines of the last minutes, for tables and tiles."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from nnhal_dashboard.monitoring.history import History
from nnhal_dashboard.web.ranges import DEFAULT
from nnhal_pages.charts.lines import sparkline
from nnhal_pages.charts.measures import BYTES, BYTES_PER_SECOND, COUNT, MILLISECONDS, PER_SECOND, SHARE, Measure
from nnhal_pages.charts.series import ChartSeries, TimeWindow

_KINDS: Mapping[str, tuple[str, Measure]] = {
    "model.requests": ("requests", PER_SECOND),
    "model.failures": ("failures", PER_SECOND),
    "model.latency": ("latency", MILLISECONDS),
    "device.executions": ("executions", PER_SECOND),
    "device.busy": ("busy", SHARE),
    "device.waiting": ("waiting executions", COUNT),
    "device.staged": ("staged", BYTES_PER_SECOND),
    "process.memory": ("memory", BYTES),
}
"""What can be drawn, by the kinds of the history: its name, and its units."""
_POINTS = 60
"""Values of a line: the highest of each stretch of time, so that no peak is lost, and last the mean."""


def spark(history: History, kind: str, name: str, seconds: int = DEFAULT.seconds) -> Markup:
    """Draw what a model, a device or a process did in the last seconds.

    Its label says what it is, with the last and the highest value. Raises KeyError if the kind is unknown.
    """
    what, measure = _KINDS[kind]
    step = max(1.0, seconds / _POINTS)
    track = history.track(kind, name, history.end, seconds, step)
    highest = [None if value != value else value for value in (*track.high[:-1].tolist(), float(track.mean[-1]))]
    points = list(zip(track.end.tolist(), highest, strict=True))
    window = TimeWindow(points[-1][0], seconds)
    said = f"{what} in the last {seconds // 60} minutes"
    return Markup(sparkline(said, ChartSeries(name, points), measure, window).embedded())
