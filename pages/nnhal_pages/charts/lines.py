"""Line charts of the last minutes, and sparklines."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal_pages.charts.frame import LINE, Frame, across_axis, apart, fitted, room_for, up_axis, wide
from nnhal_pages.charts.measures import Measure
from nnhal_pages.charts.series import ChartSeries, TimeWindow, ago, line_path
from nnhal_pages.svg import Drawing, Scale, element, label, title

_LOOKS = 6
"""Colours, and as many forms of dashes. So many series can be told apart."""
_ROOM = 1.08
_NAMES, _SAMPLE = 190, 20
"""The width of the names beside the lines, and of a piece of the line before each."""


def line_chart(
    what: str,
    series: Sequence[ChartSeries],
    measure: Measure,
    window: TimeWindow,
    width: int = 560,
    height: int = 220,
    least: float = 0.0,
) -> Drawing:
    """Draw values over time. The last value of each series stands beside its line, with its name if there are several.

    The axis begins at 0 and ends above the highest value, and above ``least``. Values outside of the window are left
    out. More than six series share looks.
    """
    shown = [ChartSeries(each.name, _within(each, window)) for each in series]
    values = [value for each in shown for _, value in each.points if value is not None]
    top, bottom = 1.75 * LINE, height - 1.5 * LINE
    up = Scale(0, max([*values, least]) * _ROOM if max([*values, least], default=0) > 0 else 1.0, bottom, top)
    ticks = list(measure.ticks(up, max(2, round((bottom - top) / 32))))
    words = [_words(each, measure, len(series) > 1) for each in shown]
    beside = _SAMPLE + 6 + room_for(words, _NAMES - _SAMPLE - 6)
    frame = Frame(room_for(tick.text for tick in ticks), width - beside, top, bottom)
    across = Scale(window.end - window.seconds, window.end, frame.left, frame.right)
    parts = [up_axis(frame, up, ticks), across_axis(frame, across, ago(window))]
    parts += [_line(number, each, words[number], across, up) for number, each in enumerate(shown)]
    parts += _last_values(shown, words, measure, up, frame)
    if not values:
        middle = (frame.left + frame.right) / 2
        parts.append(label(middle, (top + bottom) / 2, "no values in this time", "muted middle over"))
    told = f"{what}: {'; '.join(words) or 'nothing'}"
    return Drawing(width, height, told, label(0, 12, what, "muted") + "".join(parts))


def sparkline(what: str, series: ChartSeries, measure: Measure, window: TimeWindow) -> Drawing:
    """Draw values over time as a small line without axes, from 0 to the highest value."""
    points = _within(series, window)
    high = max((value for _, value in points if value is not None), default=0.0)
    across, up = Scale(window.end - window.seconds, window.end, 2, 118), Scale(0, high or 1.0, 25, 3)
    base = element("line", class_="grid", x1=2, x2=118, y1=26, y2=26)
    path = line_path(points, across, up)
    words = _words(ChartSeries("", points), measure, False)
    line = element("path", class_="series series-1", d=path) if path else ""
    return Drawing(120, 28, f"{what}: {words}, at most {measure.words(high)}", base + line)


def _within(series: ChartSeries, window: TimeWindow) -> list[tuple[float, float | None]]:
    begin = window.end - window.seconds
    return [(at, value) for at, value in series.points if begin <= at <= window.end]


def _words(series: ChartSeries, measure: Measure, named: bool) -> str:
    value = "unknown" if series.last is None else measure.words(series.last)
    return f"{series.name} {value}" if named else value


def _line(number: int, series: ChartSeries, words: str, across: Scale, up: Scale) -> str:
    path = line_path(series.points, across, up)
    look = f"series series-{number % _LOOKS + 1}"
    return element("path", title(words), class_=look, d=path) if path else ""


def _last_values(
    shown: Sequence[ChartSeries], words: Sequence[str], measure: Measure, up: Scale, frame: Frame
) -> list[str]:
    """The words beside the ends of lines, moved apart; what does not fit is in the titles of the lines."""
    most = max(1, int((frame.bottom - frame.top) / LINE))
    known = [number for number, each in enumerate(shown) if each.points][:most]
    places = [up(shown[number].last or 0.0) + 4 for number in known]
    parts = []
    for number, y in zip(known, apart(places, LINE, frame.top + 8, frame.bottom + 4), strict=True):
        text = words[number]
        value = "unknown" if shown[number].last is None else measure.words(shown[number].last or 0.0)
        if wide(text) > _NAMES - _SAMPLE - 12:
            text = f"{fitted(shown[number].name, _NAMES - _SAMPLE - 20 - wide(value))} {value}".strip()
        look = f"series-{number % _LOOKS + 1}"
        x = frame.right + 6
        parts.append(element("line", class_=f"series {look}", x1=x, x2=x + _SAMPLE, y1=y - 4, y2=y - 4))
        parts.append(label(x + _SAMPLE + 6, y, text, f"series-label {look}"))
    return parts
