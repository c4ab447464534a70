"""Use of units over the time of one run: a lane for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nnhal.v1 import admin_pb2
from nnhal_pages.charts.frame import LINE, Frame, across_axis, fitted, room_for
from nnhal_pages.charts.looks import legend, work_looks
from nnhal_pages.charts.measures import COUNT
from nnhal_pages.patterns import DeviceLane, patterns
from nnhal_pages.svg import Drawing, Scale, element, label, title
from nnhal_pages.text import shortened

_ROW, _BAR = 22, 16
_NAME = 26
"""Characters of a lane's name."""
_LEAST = 1.0
"""Spans of one kind that are narrower, and follow one another more closely, are drawn as one."""


def lanes_chart(figure: admin_pb2.TimeFigure, name: str, width: int = 1100) -> Drawing:
    """Draw a row for each lane, and time to the right.

    ``name`` begins the ids of patterns: it is the chart's own on its page. Spans of lanes that the figure has not are
    left out.
    """
    looks = work_looks(span.kind for span in figure.spans)
    key = legend(looks, name, 8, width - 8, 8)
    names = [shortened(lane, _NAME) for lane in figure.lanes]
    top = key.height + 4
    frame = Frame(room_for(names), width - 16, top, top + max(len(names), 1) * _ROW)
    across = Scale(0, max((span.end for span in figure.spans), default=0.0) or 1.0, frame.left, frame.right)
    parts = [
        patterns(name, looks.values()),
        key.content,
        across_axis(frame, across, COUNT.ticks(across, 8), has_grid=True),
        label((frame.left + frame.right) / 2, frame.bottom + 2.4 * LINE, figure.unit, "muted middle"),
    ]
    if not figure.spans:
        parts.append(label(width / 2, top + 14, "nothing is done", "muted middle"))
    for number, (lane, short) in enumerate(zip(figure.lanes, names, strict=True)):
        y = top + number * _ROW
        whole = title(lane) if short != lane else ""
        parts.append(element("g", whole + label(frame.left - 8, y + 14, short, "end")))
        own = (span for span in figure.spans if span.lane == number)
        parts += [_bar(run, across, y + 3, looks[run.kind], name) for run in _joined(own, across)]
    summary = f"{figure.name} over the time of a run of {across.high:,.0f} {figure.unit}"
    return Drawing(width, round(frame.bottom + 3 * LINE), summary, "".join(parts))


@dataclass(slots=True)
class _Joined:
    """Spans of one kind that follow one another."""

    name: str
    kind: str
    begin: float
    end: float
    count: int = 1


def _joined(spans: Iterable[admin_pb2.TimeSpan], across: Scale) -> Sequence[_Joined]:
    """Join what could not be distinguished in the drawing."""
    found: list[_Joined] = []
    pixel = _LEAST * (across.high - across.low) / (across.end - across.start)
    for span in sorted(spans, key=lambda each: each.begin):
        last = found[-1] if found else None
        near = last is not None and last.kind == span.kind and span.begin - last.end < pixel / 2
        if last is not None and near and span.end - span.begin < pixel:
            last.end, last.count = max(last.end, span.end), last.count + 1
        else:
            found.append(_Joined(span.name, span.kind, span.begin, span.end))
    return found


def _bar(run: _Joined, across: Scale, y: float, look: DeviceLane, name: str) -> str:
    left, right = across(run.begin), across(run.end)
    more = f" and {run.count - 1} more" if run.count > 1 else ""
    summary = title(f"{run.name}{more} ({run.kind}): {run.begin:,.0f} to {run.end:,.0f}")
    width = max(right - left, 0.5)
    box = {"x": left, "y": y, "width": width, "height": _BAR, "fill": look.fill(name)}
    bar = element("rect", summary, class_=f"span {look.class_}", **box)
    text = fitted(run.name, width - 10) if run.kind != "wait" else ""
    return bar + (label((left + right) / 2, y + 12, text, "middle over small-label") if text else "")
