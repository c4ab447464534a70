"""The pictures of a schedule: the frontier, and each cascade.

A cascade has its parts as boxes, what lies between them as buffers of rows, and the edges that skip parts.
"""

from __future__ import annotations

from collections.abc import Iterator

from nnhal_cascade.command import formatting
from nnhal_cascade.command.report import BufferReport, CascadePlanReport, CascadeReport, FrontierPoint, PartReport
from nnhal_pages.charts.frame import Frame, across_axis, up_axis
from nnhal_pages.charts.measures import BYTES, COUNT
from nnhal_pages.charts.points import point as marked
from nnhal_pages.svg import Drawing, Scale, element, label, lanes, rounded, title, width_of
from nnhal_pages.text import shortened

_WIDTH = 372
_LEFT, _RIGHT = 58, 364
_BOX, _GAP = 58, 62
_TOP = 12
_SLOTS = 24
"""Rows of a buffer that are drawn at most."""
_NAME = 30
"""Characters of a name."""
_ARC = 12
"""How much farther to the left each edge bows that skips one part more."""


def cascade_drawing(report: CascadeReport, plan: CascadePlanReport) -> Drawing:
    """Draw one cascade from its first part to its last, downwards."""
    buffers = {each.name: each for each in report.buffers_of(plan.plan) if each.kind != "weights"}
    lane = lanes(report.tensors)
    entries = plan.parts[0].inputs[:1]  # none if the client hands its first input over
    sources = dict.fromkeys(entries, -1) | {part.output: position for position, part in enumerate(plan.parts)}
    parts = [_buffer(-1, buffers.get(entry), lane[entry]) for entry in entries]
    for position, part in enumerate(plan.parts):
        parts.append(_part(position, part, plan, sources))
        parts.append(_buffer(position, buffers.get(part.output), lane[part.output]))
        parts += _arrows(position, part, sources)
    height = _y(len(plan.parts)) + 4
    summary = f"The cascade of parts {formatting.numbers(plan)}: {', '.join(part.name for part in plan.parts)}"
    return Drawing(_WIDTH, height, summary, "".join(parts))


def _y(position: int) -> int:
    """The top of the box of a part."""
    return _TOP + _GAP + position * (_BOX + _GAP)


def _part(position: int, part: PartReport, plan: CascadePlanReport, sources: dict[str, int]) -> str:
    y = _y(position)
    outside = [shortened(formatting.brief(name), _NAME // 2) for name in part.inputs if name not in sources]
    weights = f"weights {part.weights}, {part.weight_bytes:,} bytes" if part.weight_bytes else "no weights"
    lines = [
        label(_LEFT + 12, y + 19, f"{part.part}  {part.operation}", "strong"),
        label(_LEFT + 12, y + 34, formatting.cut(part, plan), "muted"),
        label(_LEFT + 12, y + 48, weights + (f"; reads {', '.join(outside)} too" if outside else ""), "muted"),
    ]
    box = element("rect", class_="box", x=_LEFT, y=y, width=_RIGHT - _LEFT, height=_BOX, rx=6)
    return element("g", title(part.name) + box + "".join(lines))


def _buffer(position: int, buffer: BufferReport | None, colour: str) -> str:
    """Draw what lies below the box of a part: as many bars as the buffer has rows."""
    if buffer is None:
        return ""
    y = _y(position) + _BOX + 12
    x = _LEFT + 34
    rows = buffer.extents[0] if buffer.extents[0] < buffer.shape[0] else 1
    drawn = min(rows, _SLOTS)
    height = 24 / drawn
    bars = "".join(
        element(
            "rect",
            class_="buffer",
            x=x,
            y=y + 2 + slot * height,
            width=40,
            height=height,
            stroke_width=min(1, height / 4),
        )
        for slot in range(drawn)
    )
    held, size = formatting.extent(buffer), f"{buffer.bytes:,} bytes"
    texts = [held, size] if "," in held else [f"{held}, {size}"]
    lines = label(x + 50, y + 11, shortened(formatting.brief(buffer.name), _NAME))
    lines += "".join(label(x + 50, y + 26 + 14 * number, text, "muted") for number, text in enumerate(texts))
    told = f"{buffer.name}, {formatting.shape(buffer.shape)}, at {buffer.address:#x}"
    return element("g", title(told) + bars + lines, class_=colour)


def _arrows(position: int, part: PartReport, sources: dict[str, int]) -> Iterator[str]:
    """Yield an arrow from the part above, and an arc from each that is farther up."""
    for name in dict.fromkeys(part.inputs):
        source = sources.get(name)
        if source is None:
            continue
        start, end = _y(source) + _BOX, _y(position)
        if source == position - 1:
            x = _LEFT + 18
            yield element("path", class_="arrow", d=f"M{x} {start if source >= 0 else start + 10}V{end - 7}")
            yield element("path", class_="head", d=f"M{x - 4} {end - 8}h8l-4 7z")
        else:
            yield _arc(name, source, position)


def _arc(name: str, source: int, position: int) -> str:
    """A tensor that is read again farther down. The cascade's input has no box that it could start from."""
    bow = max(4, _LEFT - 16 - _ARC * (position - source - 1))
    high = _y(source) + (_BOX / 2 if source >= 0 else _BOX + 26)
    low = _y(position) + _BOX / 2
    line = (
        f"M{_LEFT if source >= 0 else _LEFT + 30} {rounded(high)}H{bow + 10}Q{bow} {rounded(high)} {bow} "
        f"{rounded(high + 10)}V{rounded(low - 10)}Q{bow} {rounded(low)} {bow + 10} {rounded(low)}H{_LEFT - 7}"
    )
    head = element("path", class_="arc-head", d=f"M{_LEFT - 8} {rounded(low - 4)}v8l7 -4z")
    return element("path", title(f"{name} is read again"), class_="arc", d=line) + head


_CHART_WIDTH, _CHART_HEIGHT = 760, 400
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
    return Drawing(_CHART_WIDTH, _CHART_HEIGHT, summary, "".join(parts), interactive=True)


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
    return marked(lines, x, y, _CHART_WIDTH, " ".join(classes), 6 if point.chosen else 4)
