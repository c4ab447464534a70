"""The charts of a range, each with its numbers for those who do not see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import NamedTuple
from urllib.parse import quote
from weakref import WeakKeyDictionary

import numpy as np
from markupsafe import Markup

from nnhal.admin import DURATION_BOUNDS_NS
from nnhal.quantiles import quantile, summed
from nnhal.v1 import supervisor_pb2
from nnhal_dashboard.live.fragments import Moment
from nnhal_dashboard.monitoring.events import mark_of, moment_page
from nnhal_dashboard.monitoring.history import History
from nnhal_dashboard.monitoring.ring import Stretches
from nnhal_dashboard.web.formats import clock
from nnhal_dashboard.web.ranges import RANGES, TimeRange, range_named
from nnhal_pages.charts.heat_map import heat_map
from nnhal_pages.charts.lines import line_chart
from nnhal_pages.charts.marks import ChartMark
from nnhal_pages.charts.measures import (
    BYTES,
    BYTES_PER_SECOND,
    COUNT,
    MILLISECONDS,
    PER_SECOND,
    SHARE,
    Measure,
)
from nnhal_pages.charts.series import ChartSeries, TimeWindow

_QUANTILE_SECONDS = 10
"""Quantiles are of the requests of at least so many seconds: those of one second would be of few."""
_MOST_SERIES = 6
"""Lines of one chart; of more, those with the highest values are drawn."""
_REDRAWN_SECONDS = 10
"""A chart is drawn anew at least so often; one of a short range at each second of its steps."""
_MOST_DRAWN = 1000
_drawn: WeakKeyDictionary[History, dict[tuple[str, str | None, str], tuple[tuple[float, int], ShownChart]]] = (
    WeakKeyDictionary()
)
"""The charts of each history as they were drawn last, by names, lines and ranges, with what they were drawn of."""
_marked: WeakKeyDictionary[History, tuple[Sequence[supervisor_pb2.ProcessEvent], Sequence[ChartMark]]] = (
    WeakKeyDictionary()
)
_NOT_YET = "The dashboard has just begun to collect: the first values are shown after two seconds."
_NO_FRAMEWORK = "The framework did not answer in this time."
_NO_DEVICE = "No device answered in this time."


class ChartRow(NamedTuple):
    """A line of a chart, in words."""

    name: str
    page: str
    """The page of what it is about; empty if there is none."""
    last: str
    mean: str
    highest: str


@dataclass(frozen=True, slots=True)
class ShownChart:
    """A chart on the page."""

    title: str
    svg: Markup
    rows: Sequence[ChartRow] = ()
    note: str = ""
    nothing: str = ""
    """Why there is no picture; empty if there is one."""


class Extent(NamedTuple):
    """Span and size of a chart."""

    history: History
    range: TimeRange
    window: TimeWindow
    marks: Sequence[ChartMark]
    width: int
    height: int


class ChartKind(NamedTuple):
    """Part of the history that a chart shows."""

    title: str
    measure: Measure
    series: str
    """The kind of its series."""
    unknown: str
    """Why there are no values."""
    zero: str = ""
    """What it means if all values are 0; empty if that is to be drawn."""
    room: str = ""
    """The address below which each line's subject has its page."""
    note: str = ""
    least: float = 0.0
    """The axis reaches at least this."""

    def draw(self, extent: Extent, only: str | None) -> ShownChart:
        """Draw it; ``only`` one line if it is named."""
        names = [only] if only is not None else extent.history.names(self.series)
        tracks = {name: self._track(extent, name, extent.range) for name in names}
        return _draw_tracks(self, _most_important(tracks), extent, self._reach(extent, [*tracks]))

    def _track(self, extent: Extent, name: str, shown: TimeRange) -> Stretches:
        return extent.history.track(self.series, name, extent.window.end, shown.seconds, shown.step)

    def _reach(self, extent: Extent, names: Sequence[str]) -> float:
        """The highest value of the longest range, which has a say in the unit: so that it stays in shorter ones."""
        if len(self.measure.units) == 1:
            return 0.0
        longest = RANGES["24h"]
        return max((_highest(self._track(extent, name, longest)) for name in names), default=0.0)


def _draw_tracks(kind: ChartKind, tracks: Mapping[str, Stretches], extent: Extent, reach: float = 0.0) -> ShownChart:
    """Draw lines by name, or say why there are none."""
    known = {name: track for name, track in tracks.items() if not np.isnan(track.mean).all()}
    if not known or (kind.zero and not any(_highest(track) > 0 for track in known.values())):
        nothing = kind.zero if known else kind.unknown
        return ShownChart(kind.title, Markup(), nothing=nothing if extent.history.end else _NOT_YET)
    series = [_series(name or "all models", track) for name, track in known.items()]
    drawing = line_chart(
        kind.title, series, kind.measure, extent.window, extent.width, extent.height, kind.least, reach, extent.marks
    )
    rows = [_row(kind, name, track) for name, track in known.items()]
    return ShownChart(kind.title, Markup(drawing.embedded()), rows, kind.note)


def _quantiles(extent: Extent, _: str | None) -> ShownChart:
    """Draw the median and the 99th percentile of latencies."""
    step = max(extent.range.step, _QUANTILE_SECONDS)
    window = extent.window
    ends, counts = extent.history.durations(window.end, window.seconds, step)
    lines = {}
    for name, share in (("median", 0.5), ("99 %", 0.99)):
        found = [quantile(each, share) for each in counts.tolist()]
        values = np.array([np.nan if value is None else value for value in found])
        lines[name] = Stretches(ends, np.full(len(ends), float(step)), values, values, values)
    kind = QUANTILES._replace(note=f"Of the requests of {step} seconds at a time.")
    return _draw_tracks(kind, lines, extent)


def _durations(extent: Extent, _: str | None) -> ShownChart:
    """Draw how long requests took, as a heat map."""
    title, window = "How long requests took", extent.window
    step = extent.range.step
    ends, counts = extent.history.durations(window.end, window.seconds, step)
    samples = [(float(end) - step, row) for end, row in zip(ends, counts.tolist(), strict=True) if any(row)]
    if not samples:
        nothing = "No request ended in this time." if extent.history.end else _NOT_YET
        return ShownChart(title, Markup(), nothing=nothing)
    drawing = heat_map(title, samples, DURATION_BOUNDS_NS, window, marks=extent.marks)
    total = summed(row for _, row in samples)
    known = {f"{share:.0%}": quantile(total, share) for share in (0.5, 0.9, 0.99)}
    rows = [ChartRow(name, "", MILLISECONDS.words(value), "", "") for name, value in known.items() if value is not None]
    note = "The stronger a cell's colour, the more requests took so long then."
    return ShownChart(title, Markup(drawing.embedded()), rows, note)


def chart(name: str, moment: Moment, only: str | None = None, width: int = 560, height: int = 220) -> ShownChart:
    """Return a chart of the range that a part of a page has; ``only`` one line if it is named.

    It is drawn anew some seconds later, or when something has happened. Raises ValueError if there is no such range.
    """
    history, shown, events = moment.collector.history, range_named(moment.parameters), moment.snapshot.events
    now = max(history.end, moment.snapshot.at)
    state = floor(now / min(2 * shown.step, _REDRAWN_SECONDS)), events[-1].at_ns if events else 0
    drawn = _drawn.setdefault(history, {})
    known = drawn.get((name, only, shown.name))
    if known is None or known[0] != state:
        window = TimeWindow(ceil(now / shown.step) * shown.step, shown.seconds)
        marks = [mark for mark in _marks(history, events) if mark.at >= window.begin]
        extent = Extent(history, shown, window, marks, width, height)
        if len(drawn) >= _MOST_DRAWN:
            drawn.clear()
        known = drawn[name, only, shown.name] = state, DRAWINGS[name](extent, only)
    return known[1]


def _marks(history: History, events: Sequence[supervisor_pb2.ProcessEvent]) -> Sequence[ChartMark]:
    """The marks of events, which are made once for all charts."""
    known = _marked.get(history)
    if known is None or known[0] is not events:
        known = _marked[history] = events, [_mark(event) for event in events]
    return known[1]


def _mark(event: supervisor_pb2.ProcessEvent) -> ChartMark:
    text = f"{clock(event.at_ns)} UTC {event.subject}: {event.text}"
    return ChartMark(event.at_ns / 1e9, mark_of(event), text, moment_page(event))


def _series(name: str, track: Stretches) -> ChartSeries:
    middles = (track.end - track.seconds / 2).tolist()
    means = [None if value != value else value for value in track.mean.tolist()]
    spread = list(zip(middles, track.low.tolist(), track.high.tolist(), strict=True))
    return ChartSeries(name, list(zip(middles, means, strict=True)), spread)


def _row(kind: ChartKind, name: str, track: Stretches) -> ChartRow:
    means = track.mean[~np.isnan(track.mean)]
    in_words = kind.measure.words
    page = f"{kind.room}/{quote(name, safe='')}" if kind.room and name else ""
    return ChartRow(name or "all models", page, in_words(means[-1]), in_words(means.mean()), in_words(_highest(track)))


def _highest(track: Stretches) -> float:
    return float(np.fmax.reduce(track.high, initial=0.0))


def _most_important(tracks: Mapping[str, Stretches]) -> dict[str, Stretches]:
    """Keep the lines with the highest values, in the order given."""
    chosen = set(sorted(tracks, key=lambda name: _highest(tracks[name]), reverse=True)[:_MOST_SERIES])
    return {name: track for name, track in tracks.items() if name in chosen}


QUANTILES = ChartKind("Latency", MILLISECONDS, "", "No request ended in this time.")
CHARTS: Mapping[str, ChartKind] = {
    "requests": ChartKind("Requests", PER_SECOND, "requests", _NO_FRAMEWORK, "No request came in this time."),
    "models": ChartKind(
        "Requests by model",
        PER_SECOND,
        "model.requests",
        "No model was served in this time.",
        "No model had a request in this time.",
        "/models",
    ),
    "latency": ChartKind(
        "Latency by model",
        MILLISECONDS,
        "model.latency",
        "No request ended in this time.",
        room="/models",
        note="The mean of the requests that ended at a time.",
    ),
    "failures": ChartKind("Failures", PER_SECOND, "failures", _NO_FRAMEWORK, "No request failed in this time."),
    "copied": ChartKind("Copied bytes", BYTES_PER_SECOND, "copied", _NO_FRAMEWORK, "Nothing was copied in this time."),
    "executions": ChartKind(
        "Executions by device",
        PER_SECOND,
        "device.executions",
        _NO_DEVICE,
        "Nothing was executed in this time.",
        "/devices",
    ),
    "busy": ChartKind(
        "Busy workers",
        SHARE,
        "device.busy",
        _NO_DEVICE,
        "No worker computed in this time.",
        "/devices",
        "Of the time of all workers.",
        1.0,
    ),
    "waiting": ChartKind(
        "Executions that wait for a worker",
        COUNT,
        "device.waiting",
        _NO_DEVICE,
        "No execution waited for a worker in this time.",
        "/devices",
        least=1.0,
    ),
    "staged": ChartKind(
        "Staged bytes by device",
        BYTES_PER_SECOND,
        "device.staged",
        _NO_DEVICE,
        "Nothing was staged in this time: all devices used the memory in place.",
        "/devices",
        "Copied into and out of a device since it cannot use the memory in place.",
    ),
    "memory": ChartKind(
        "Memory by process",
        BYTES,
        "process.memory",
        "No process answered in this time.",
        note="Resident, shared memory included.",
    ),
}
"""The line charts, by the names of their parts of the page."""
DRAWINGS: Mapping[str, Callable[[Extent, str | None], ShownChart]] = {
    "requests": CHARTS["requests"].draw,
    "quantiles": _quantiles,
    "durations": _durations,
} | {name: kind.draw for name, kind in CHARTS.items() if name != "requests"}
"""What draws each chart, in the order of the page of metrics."""
OF_DEVICE = ("busy", "executions", "waiting", "staged")
"""Those of one device."""
