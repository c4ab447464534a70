"""The frontier: memory against cycles."""

from __future__ import annotations

from nnhal_cascade.command import formatting
from nnhal_cascade.command.report import CascadeReport, FrontierPoint
from nnhal_pages.charts.points import point as marked
from nnhal_pages.svg import Drawing, Scale, element, label, rounded, width_of

_WIDTH, _HEIGHT = 760, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 736, 28, 344
_KIB = 1024
_ROOM = 1.04
"""How much of each axis is left beyond the points."""


def frontier_drawing(report: CascadeReport) -> Drawing:
    """Draw the points of a report's frontier; there must be some."""
    points = report.frontier
    lowest, highest = points[-1].peak / _KIB, points[0].peak / _KIB
    margin = max((highest - lowest) * (_ROOM - 1), highest * (_ROOM - 1) / 2)
    across = Scale(max(0.0, lowest - margin), highest + margin, _LEFT, _RIGHT)
    fastest, slowest = min(p.cycles for p in points), max(p.cycles for p in points)
    spread = max((slowest - fastest) * 0.08, slowest * 0.01)
    up = Scale(max(0, fastest - spread), slowest + spread, _BOTTOM, _TOP)
    parts = [
        _axes(report, across, up),
        _budget(report, across),
        element("path", class_="steps", d=_steps(points, across, up)),
        *(_point(point, across, up) for point in points),
    ]
    most, least = (
        f"{formatting.size(p.peak)} and {formatting.short(p.cycles)} cycles" for p in (points[0], points[-1])
    )
    summary = f"The frontier of {report.model}: from {most} to {least}"
    return Drawing(_WIDTH, _HEIGHT, summary, "".join(parts), interactive=True)


def _axes(report: CascadeReport, across: Scale, up: Scale) -> str:
    parts = []
    for value in across.ticks(8):
        x = across(value)
        parts.append(element("line", class_="grid", x1=x, x2=x, y1=_TOP, y2=_BOTTOM))
        parts.append(label(x, _BOTTOM + 18, f"{value:g}", "muted middle"))
    unit, name = formatting.unit(int(up.high))
    for value in up.ticks(6):
        y = up(value)
        parts.append(element("line", class_="grid", x1=_LEFT, x2=_RIGHT, y1=y, y2=y))
        parts.append(label(_LEFT - 8, y + 4, f"{value / unit:g}", "muted end"))
    parts.append(element("line", class_="axis", x1=_LEFT, x2=_RIGHT, y1=_BOTTOM, y2=_BOTTOM))
    parts.append(element("line", class_="axis", x1=_LEFT, x2=_LEFT, y1=_TOP, y2=_BOTTOM))
    parts.append(label((_LEFT + _RIGHT) / 2, _BOTTOM + 42, f"{report.system.working} used (KiB)", "middle"))
    parts.append(label(8, _TOP - 12, f"Cycles ({name}) on {report.system.accelerator}"))
    return "".join(parts)


def _budget(report: CascadeReport, across: Scale) -> str:
    value = report.budget / _KIB
    if not across.low <= value <= across.high:
        return ""
    x = across(value)
    text = f"budget {formatting.kibibytes(report.budget)}"
    left = x + width_of(text) + 8 > _RIGHT
    return element("line", class_="limit", x1=x, x2=x, y1=_TOP, y2=_BOTTOM) + label(
        x - 6 if left else x + 6, _TOP + 12, text, "limit-label over" + (" end" if left else "")
    )


def _steps(points: tuple[FrontierPoint, ...], across: Scale, up: Scale) -> str:
    """The least cycles for each size of memory: a line of steps, from the least memory on."""
    path = ""
    for point in reversed(points):
        x, y = rounded(across(point.peak / _KIB)), rounded(up(point.cycles))
        path += f"H{x}V{y}" if path else f"M{x} {y}"
    return f"{path}H{_RIGHT}"


def _point(point: FrontierPoint, across: Scale, up: Scale) -> str:
    x, y = across(point.peak / _KIB), up(point.cycles)
    time, overhead = formatting.time(point.milliseconds), formatting.per_cent(point.overhead)
    lines = (
        formatting.size(point.peak),
        f"{formatting.short(point.cycles)} cycles, {time}, {overhead}",
        f"cascades: {formatting.cascades(point)}",
    )
    classes = ["point"] + ["chosen"] * point.chosen + ["recomputing"] * (point.tiles > 1)
    return marked(lines, x, y, _WIDTH, " ".join(classes), 6 if point.chosen else 4)
