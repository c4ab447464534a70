"""The working memory over time: for each byte, the tensor whose live elements it holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnhal_cascade.command import formatting
from nnhal_cascade.command.report import BufferReport, CascadeReport
from nnhal_cascade.schedule.lives import LiveBytes, TensorLife
from nnhal_cascade.schedule.replay import PlanReplay
from nnhal_pages.svg import Drawing, Scale, element, label, lanes, rounded, title, width_of
from nnhal_pages.text import shortened

_WIDTH, _HEIGHT = 1100, 480
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 1084, 44, 420
_NAME, _LEAST_NAME = 24, 10
"""Characters of a name in the picture, at most and at least."""
_LINE = 0.04
"""The height of a line of text, as a share of the picture."""
_HATCHING = element(
    "pattern",
    element("line", class_="hatching", x1=0, x2=0, y1=0, y2=6),
    id="hatching",
    width=6,
    height=6,
    patternUnits="userSpaceOnUse",
    patternTransform="rotate(45)",
)


def memory_drawing(report: CascadeReport, replays: Sequence[PlanReplay], lives: Sequence[TensorLife]) -> Drawing:
    """Draw addresses upwards and cycles to the right; each row of a tensor is a bar from its birth to its death."""
    top = max(report.planned.peak, report.budget if report.budget <= 1.5 * report.planned.peak else 0)
    across = Scale(0, max(replays[-1].end, 1), _LEFT, _RIGHT)
    up = Scale(0, max(top, 1) * 1.02 / 1024, _BOTTOM, _TOP)
    lane = lanes(dict.fromkeys((*report.tensors, *(life.name for life in lives))))
    weights = [each for each in report.buffers if each.kind == "weights" and each.region == report.system.working]
    parts = [
        element("defs", _HATCHING),
        *_columns(report, replays, across),
        _axes(report, across, up),
        *(_life(life, lane[life.name], replays, across, up) for life in lives),
        *(_weights(each, replays, across, up) for each in weights),
        *_names(lives, across, up),
        _limit(report.planned.peak, f"peak {formatting.kibibytes(report.planned.peak)}", up, "axis", "muted"),
    ]
    if report.budget < up.high * 1024 and report.budget - report.planned.peak > top * _LINE:
        parts.append(_limit(report.budget, f"budget {formatting.kibibytes(report.budget)}", up, "limit", "limit-label"))
    peak = formatting.size(report.planned.peak)
    summary = f"The {report.system.working} of {report.model} over time, with a peak of {peak}"
    return Drawing(_WIDTH, _HEIGHT, summary, "".join(parts))


def _columns(report: CascadeReport, replays: Sequence[PlanReplay], across: Scale) -> Iterator[str]:
    """Yield a ground for each cascade, with its number, and a line at the end of every plan."""
    for plan, ran in zip(report.plans, replays, strict=True):
        start, end = across(ran.start), across(ran.end)
        if len(plan.parts) > 1:
            text = f"cascade of {formatting.numbers(plan)}"
            yield element(
                "rect",
                title(f"{text}: {formatting.short(plan.cycles)} cycles, {formatting.size(plan.memory)}"),
                class_="column",
                x=start,
                width=end - start,
                y=_TOP - 24,
                height=_BOTTOM - _TOP + 24,
            )
            if width_of(text) < end - start:
                yield label((start + end) / 2, _TOP - 8, text, "middle strong")
        yield element("line", class_="grid", x1=end, x2=end, y1=_TOP - 24, y2=_BOTTOM)


def _axes(report: CascadeReport, across: Scale, up: Scale) -> str:
    parts = []
    unit, name = formatting.unit(int(across.high))
    cycles = Scale(0, across.high / unit, across.start, across.end)
    for value in cycles.ticks(8):
        parts.append(label(cycles(value), _BOTTOM + 18, f"{value:g}", "muted middle"))
        parts.append(element("line", class_="axis", x1=cycles(value), x2=cycles(value), y1=_BOTTOM, y2=_BOTTOM + 4))
    for value in up.ticks(6):
        parts.append(element("line", class_="grid", x1=_LEFT, x2=_RIGHT, y1=up(value), y2=up(value)))
        parts.append(label(_LEFT - 8, up(value) + 4, f"{value:g}", "muted end"))
    parts.append(element("line", class_="axis", x1=_LEFT, x2=_RIGHT, y1=_BOTTOM, y2=_BOTTOM))
    parts.append(label((_LEFT + _RIGHT) / 2, _BOTTOM + 42, f"Cycles ({name})", "middle"))
    parts.append(label(8, _TOP - 28, f"Address in {report.system.working} (KiB)"))
    return "".join(parts)


def _life(life: TensorLife, lane: str, replays: Sequence[PlanReplay], across: Scale, up: Scale) -> str:
    buffer = life.buffer
    start, end = replays[buffer.first].start, replays[buffer.last].end
    box = _bar(LiveBytes(buffer.address, buffer.bytes, start, end), across, up)
    path = "".join(_bar(piece, across, up) for piece in life.pieces)
    told = f"{life.name}: {formatting.size(buffer.bytes)} at {buffer.address:#x}"
    return element(
        "g",
        title(told) + element("path", class_="allocated", d=box) + element("path", class_="alive", d=path),
        class_=lane,
    )


def _weights(buffer: BufferReport, replays: Sequence[PlanReplay], across: Scale, up: Scale) -> str:
    bar = LiveBytes(buffer.address, buffer.bytes, replays[buffer.first].start, replays[buffer.last].end)
    told = f"weights of {buffer.name}: {formatting.size(buffer.bytes)} at {buffer.address:#x}"
    return element("path", title(told), class_="weights", fill="url(#hatching)", d=_bar(bar, across, up))


def _bar(piece: LiveBytes, across: Scale, up: Scale) -> str:
    left, right = across(piece.start), across(piece.end)
    top, bottom = up((piece.address + piece.bytes) / 1024), up(piece.address / 1024)
    return f"M{rounded(left)} {rounded(top)}H{rounded(right)}V{rounded(bottom)}H{rounded(left)}z"


def _names(lives: Sequence[TensorLife], across: Scale, up: Scale) -> Iterator[str]:
    """Yield the name of each tensor that has room for it, in the middle of what is alive of it."""
    for life in lives:
        area = sum(_area(piece) for piece in life.pieces)
        address = sum((piece.address + piece.bytes / 2) * _area(piece) for piece in life.pieces) / max(area, 1)
        there = [piece for piece in life.pieces if piece.address <= address < piece.address + piece.bytes]
        piece = max(there, key=lambda each: each.end - each.start, default=None)
        if piece is not None and life.buffer.bytes > up.high * 1024 * _LINE:
            start, end = across(piece.start), across(piece.end)
            text = shortened(formatting.brief(life.name), min(_NAME, int((end - start) / width_of("m"))))
            if text == formatting.brief(life.name) or len(text) >= _LEAST_NAME:
                yield label((start + end) / 2, up(address / 1024) + 4, text, "middle over")


def _area(piece: LiveBytes) -> int:
    return piece.bytes * (piece.end - piece.start)


def _limit(address: int, text: str, up: Scale, line: str, words_class: str) -> str:
    y = up(address / 1024)
    return element("line", class_=line, x1=_LEFT, x2=_RIGHT, y1=y, y2=y) + label(
        _RIGHT - 4, y - 5, text, f"end over {words_class}"
    )
