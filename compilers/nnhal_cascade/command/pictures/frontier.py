"""The frontier: memory against cycles."""

from __future__ import annotations

from nnhal_cascade.command import formatting
from nnhal_cascade.command.report import CascadeReport, FrontierPoint
from nnhal_pages.charts.frame import Frame, across_axis, up_axis
from nnhal_pages.charts.measures import BYTES, COUNT
from nnhal_pages.charts.points import point as marked
from nnhal_pages.svg import Drawing, Scale, element, label, rounded, width_of

_WIDTH, _HEIGHT = 760, 400
_FRAME = Frame(64, 736, 28, 344)
_ROOM = 1.04
"""How much of each axis is left beyond the points."""


def frontier_drawing(report: CascadeReport) -> Drawing:
    """Draw the points of a report's frontier; there must be some."""
    points = report.frontier
    lowest, highest = points[-1].peak, points[0].peak
    margin = max((highest - lowest) * (_ROOM - 1), highest * (_ROOM - 1) / 2)
    across = Scale(max(0.0, lowest - margin), highest + margin, _FRAME.left, _FRAME.right)
    fastest, slowest = min(p.cycles for p in points), max(p.cycles for p in points)
    spread = max((slowest - fastest) * 0.08, slowest * 0.01)
    up = Scale(max(0, fastest - spread), slowest + spread, _FRAME.bottom, _FRAME.top)
    parts = [
        up_axis(_FRAME, up, COUNT.ticks(up, 6)),
        across_axis(_FRAME, across, BYTES.ticks(across, 8), has_grid=True),
        label((_FRAME.left + _FRAME.right) / 2, _FRAME.bottom + 42, f"{report.system.working} used", "middle"),
        label(8, _FRAME.top - 12, f"Cycles on {report.system.accelerator}"),
        _budget(report, across),
        element("path", class_="steps", d=_steps(points, across, up)),
        *(_point(point, across, up) for point in points),
    ]
    most, least = (
        f"{formatting.size(p.peak)} and {formatting.short(p.cycles)} cycles" for p in (points[0], points[-1])
    )
    summary = f"The frontier of {report.model}: from {most} to {least}"
    return Drawing(_WIDTH, _HEIGHT, summary, "".join(parts), interactive=True)


def _budget(report: CascadeReport, across: Scale) -> str:
    value = report.budget
    if not across.low <= value <= across.high:
        return ""
    x = across(value)
    text = f"budget {formatting.kibibytes(report.budget)}"
    left = x + width_of(text) + 8 > _FRAME.right
    return element("line", class_="limit", x1=x, x2=x, y1=_FRAME.top, y2=_FRAME.bottom) + label(
        x - 6 if left else x + 6, _FRAME.top + 12, text, "limit-label over" + (" end" if left else "")
    )


def _steps(points: tuple[FrontierPoint, ...], across: Scale, up: Scale) -> str:
    """The least cycles for each size of memory: a line of steps, from the least memory on."""
    path = ""
    for point in reversed(points):
        x, y = rounded(across(point.peak)), rounded(up(point.cycles))
        path += f"H{x}V{y}" if path else f"M{x} {y}"
    return f"{path}H{rounded(_FRAME.right)}"


def _point(point: FrontierPoint, across: Scale, up: Scale) -> str:
    x, y = across(point.peak), up(point.cycles)
    time, overhead = formatting.time(point.milliseconds), formatting.per_cent(point.overhead)
    lines = (
        formatting.size(point.peak),
        f"{formatting.short(point.cycles)} cycles, {time}, {overhead}",
        f"cascades: {formatting.cascades(point)}",
    )
    classes = ["point"] + ["chosen"] * point.chosen + ["recomputing"] * (point.tiles > 1)
    return marked(lines, x, y, _WIDTH, " ".join(classes), 6 if point.chosen else 4)
