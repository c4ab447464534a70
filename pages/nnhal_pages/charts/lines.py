"""Line charts of the last minutes, and sparklines."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal_pages.charts.frame import LINE, Frame, apart, fitted, places, time_axis, time_frame, up_axis, wide
from nnhal_pages.charts.marks import ChartMark, marked
from nnhal_pages.charts.measures import Measure
from nnhal_pages.charts.series import ChartSeries, TimeWindow, line_path, spread_path
from nnhal_pages.svg import Drawing, Scale, element, label, title

_LOOKS = 6
"""Colours, and as many forms of dashes. So many series can be distinguished."""
_ROOM = 1.08
_SAMPLE = 20
"""The width of a piece of the line before its name."""


def line_chart(
    what: str,
    series: Sequence[ChartSeries],
    measure: Measure,
    window: TimeWindow,
    width: int = 560,
    height: int = 220,
    least: float = 0.0,
    reach: float = 0.0,
    marks: Sequence[ChartMark] = (),
) -> Drawing:
    """Draw values over time. The last value of each series stands beside its line, with its name if there are several.

    The axis begins at 0 and ends above the highest value, and above ``least``. Values outside of the window are left
    out. More than six series share looks. All values are in one unit, the one that suits ``reach`` if that is higher:
    so a chart has the same unit for several windows. A script finds in the data of the group ``data-chart`` where which
    instant and value is.
    """
    shown = [ChartSeries(each.name, _within(each, window), _spread(each, window)) for each in series]
    values = [value for each in shown for _, value in each.points if value is not None]
    values += [high for each in shown for _, _, high in each.spread if high == high]
    heading = label(0, 12, what, "muted")
    if not values:
        middle = label(width / 2, height / 2, "no values in this time", "muted middle")
        return Drawing(width, height, f"{what}: nothing", heading + middle)
    top, bottom = 2.75 * LINE, height - 1.5 * LINE
    high = max([*values, least]) * _ROOM if max([*values, least]) > 0 else 1.0
    up = Scale(0, high, bottom, top)
    unit, bare = measure.unit(max(high, reach))
    ticks = list(bare.ticks(up, max(2, round((bottom - top) / 32))))
    words = [_words(each, bare, len(series) > 1) for each in shown]
    frame = time_frame(width, top, bottom)
    across = Scale(window.begin, window.end, frame.left, frame.right)
    parts = [heading, label(0, top - 10, unit, "muted"), up_axis(frame, up, ticks)]
    parts.append(time_axis(frame, across, window))
    lines = [_line(number, each, measure, across, up) for number, each in enumerate(shown)]
    lines += _last_values(shown, words, bare, up, frame, width - frame.right - _SAMPLE - 6)
    parts.append(element("g", "".join(lines), data_chart="lines", **places(frame, window, high / bare.units[0][0])))
    parts.append(marked(marks, frame, across, window))  # above the lines, so that they can be hit
    summary = "; ".join(_words(each, measure, len(series) > 1) for each in shown)
    return Drawing(width, height, f"{what}: {summary}", "".join(parts), interactive=bool(marks))


def sparkline(what: str, series: ChartSeries, measure: Measure, window: TimeWindow) -> Drawing:
    """Draw values over time as a small line without axes, from 0 to the highest value."""
    points = _within(series, window)
    high = max((value for _, value in points if value is not None), default=0.0)
    across, up = Scale(window.begin, window.end, 2, 118), Scale(0, high or 1.0, 25, 3)
    base = element("line", class_="grid", x1=2, x2=118, y1=26, y2=26)
    path = line_path(points, across, up)
    words = _words(ChartSeries("", points), measure, False)
    line = element("path", class_="series series-1", d=path) if path else ""
    return Drawing(120, 28, f"{what}: {words}, at most {measure.words(high)}", base + line)


def _within(series: ChartSeries, window: TimeWindow) -> list[tuple[float, float | None]]:
    begin = window.begin
    return [(at, value) for at, value in series.points if begin <= at <= window.end]


def _spread(series: ChartSeries, window: TimeWindow) -> list[tuple[float, float, float]]:
    return [each for each in series.spread if window.begin <= each[0] <= window.end]


def _words(series: ChartSeries, measure: Measure, named: bool) -> str:
    value = "unknown" if series.last is None else measure.words(series.last)
    return f"{series.name} {value}" if named else value


def _line(number: int, series: ChartSeries, measure: Measure, across: Scale, up: Scale) -> str:
    path = line_path(series.points, across, up)
    if not path:
        return ""
    look, summary = f"series-{number % _LOOKS + 1}", title(_words(series, measure, True).strip())
    band = spread_path(series, across, up)
    between = element("path", class_=f"spread {look}", d=band) if band else ""
    return between + element("path", summary, class_=f"series {look}", d=path, data_series=number)


def _last_values(
    shown: Sequence[ChartSeries], words: Sequence[str], measure: Measure, up: Scale, frame: Frame, room: float
) -> list[str]:
    """The words beside the ends of lines, moved apart; what does not fit is in the titles of the lines."""
    most = max(1, int((frame.bottom - frame.top) / LINE))
    known = [number for number, each in enumerate(shown) if each.points][:most]
    places = [up(shown[number].last or 0.0) + 4 for number in known]
    parts = []
    for number, y in zip(known, apart(places, LINE, frame.top + 8, frame.bottom + 4), strict=True):
        text = words[number]
        value = _words(shown[number], measure, False)
        if wide(text) > room - 6:
            text = f"{fitted(shown[number].name, room - 14 - wide(value))} {value}".strip()
        look = f"series-{number % _LOOKS + 1}"
        x = frame.right + 6
        parts.append(element("line", class_=f"series {look}", x1=x, x2=x + _SAMPLE, y1=y - 4, y2=y - 4))
        name = text.removesuffix(value).strip()
        parts.append(label(x + _SAMPLE + 6, y, text, f"series-label {look}", data_value_of=number, data_name=name))
    return parts
