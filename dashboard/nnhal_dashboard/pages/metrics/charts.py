"""The charts of the last minutes, each with its numbers for those who do not see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from nnhal.admin import DURATION_BOUNDS_NS
from nnhal.quantiles import quantile, summed
from nnhal_dashboard.monitoring.history import HistorySample
from nnhal_pages.charts.heat_map import heat_map
from nnhal_pages.charts.lines import line_chart
from nnhal_pages.charts.measures import (
    BYTES,
    BYTES_PER_SECOND,
    COUNT,
    NANOSECONDS,
    PER_SECOND,
    SHARE,
    Measure,
)
from nnhal_pages.charts.series import ChartSeries, TimeWindow

_QUANTILE_SECONDS = 10
"""Quantiles are of the requests of so many seconds: those of one second would be of few."""
_MOST_SERIES = 6
"""Lines of one chart; of more, those with the highest values are drawn."""


@dataclass(frozen=True, slots=True)
class ShownChart:
    """A chart on the page."""

    title: str
    svg: Markup
    rows: Sequence[tuple[str, str, str, str]]
    """For each line: its name, its last value, its mean and its highest value, in words."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ChartKind:
    """What a chart shows of the samples."""

    title: str
    measure: Measure
    lines: Callable[[Sequence[HistorySample]], Mapping[str, Sequence[float | None]]]
    """Values of each line, one for each sample; None if it is not known."""
    note: str = ""
    least: float = 0.0
    """The axis reaches at least this."""

    def draw(self, samples: Sequence[HistorySample], window: TimeWindow) -> ShownChart:
        """Draw it."""
        lines = _most_important(self.lines(samples))
        instants = [sample.at for sample in samples]
        series = [ChartSeries(name, list(zip(instants, values, strict=True))) for name, values in lines.items()]
        drawing = line_chart(self.title, series, self.measure, window, least=self.least)
        rows = [row for name, values in lines.items() if (row := self._row(name, values)) is not None]
        return ShownChart(self.title, Markup(drawing.embedded()), rows, self.note)

    def _row(self, name: str, values: Sequence[float | None]) -> tuple[str, str, str, str] | None:
        known = [value for value in values if value is not None]
        if not known:
            return None
        told = self.measure.words
        return name, told(known[-1]), told(sum(known) / len(known)), told(max(known))


def durations_chart(samples: Sequence[HistorySample], window: TimeWindow) -> ShownChart:
    """Draw how long requests took, as a heat map."""
    counted = [(sample.at, sample.durations) for sample in samples if sample.durations]
    drawing = heat_map("How long requests took", counted, DURATION_BOUNDS_NS, window)
    total = summed(counts for _, counts in counted)
    known = {f"{share:.0%}": quantile(total, share) for share in (0.5, 0.9, 0.99)}
    rows = [(name, NANOSECONDS.words(value), "", "") for name, value in known.items() if value is not None]
    return ShownChart(
        "How long requests took",
        Markup(drawing.embedded()),
        rows,
        "The stronger a cell's colour, the more requests took so long then.",
    )


def _of_framework(value: Callable[[HistorySample], float]) -> Callable[[Sequence[HistorySample]], list[float | None]]:
    return lambda samples: [value(sample) if sample.is_known else None for sample in samples]


def _single(
    name: str, value: Callable[[HistorySample], float]
) -> Callable[[Sequence[HistorySample]], Mapping[str, Sequence[float | None]]]:
    line = _of_framework(value)
    return lambda samples: {name: line(samples)}


def _by_name(
    values: Callable[[HistorySample], Mapping[str, float]],
) -> Callable[[Sequence[HistorySample]], Mapping[str, Sequence[float | None]]]:
    def lines(samples: Sequence[HistorySample]) -> dict[str, list[float | None]]:
        names = dict.fromkeys(name for sample in samples for name in values(sample))
        return {name: [values(sample).get(name) for sample in samples] for name in names}

    return lines


def _quantiles(samples: Sequence[HistorySample]) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = {"median": [], "99 %": []}
    counts = [sample.durations for sample in samples]
    for end in range(1, len(samples) + 1):
        recent = summed(counts[max(0, end - _QUANTILE_SECONDS) : end])
        found["median"].append(quantile(recent, 0.5))
        found["99 %"].append(quantile(recent, 0.99))
    return found


def _most_important(lines: Mapping[str, Sequence[float | None]]) -> dict[str, Sequence[float | None]]:
    """Keep the lines with the highest values, in the order given."""

    def highest(name: str) -> float:
        return max((value for value in lines[name] if value is not None), default=-1.0)

    kept: Iterable[str] = sorted(lines, key=highest, reverse=True)[:_MOST_SERIES]
    chosen = set(kept)
    return {name: values for name, values in lines.items() if name in chosen}


CHARTS: Mapping[str, ChartKind] = {
    "requests": ChartKind("Requests", PER_SECOND, _single("all models", lambda sample: sample.requests)),
    "models": ChartKind("Requests by model", PER_SECOND, _by_name(lambda sample: sample.models)),
    "quantiles": ChartKind(
        "Latency", NANOSECONDS, _quantiles, f"Of the requests of the {_QUANTILE_SECONDS} seconds before each instant."
    ),
    "failures": ChartKind("Failures", PER_SECOND, _single("all models", lambda sample: sample.failures), least=1.0),
    "copied": ChartKind("Copied bytes", BYTES_PER_SECOND, _single("all models", lambda sample: sample.copied_bytes)),
    "executions": ChartKind("Executions by device", PER_SECOND, _by_name(lambda sample: sample.executions)),
    "busy": ChartKind("Busy workers", SHARE, _by_name(lambda sample: sample.busy), "Of the time of all workers.", 1.0),
    "waiting": ChartKind(
        "Executions that wait for a worker", COUNT, _by_name(lambda sample: dict(sample.waiting)), least=1.0
    ),
    "staged": ChartKind(
        "Staged bytes by device",
        BYTES_PER_SECOND,
        _by_name(lambda sample: sample.staged_bytes),
        "Copied into and out of a device since it cannot use the memory in place.",
    ),
    "memory": ChartKind(
        "Memory by process",
        BYTES,
        _by_name(lambda sample: dict(sample.memory_bytes)),
        "Resident, shared memory included. Known only for times at which somebody looked.",
    ),
}
"""The line charts, by the names of their parts of the page."""
