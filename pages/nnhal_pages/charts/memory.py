"""A memory over the time of one run: which bytes hold what, from when to when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nnhal.v1 import admin_pb2
from nnhal_pages.charts.frame import LINE, Frame, across_axis, fitted, room_for, up_axis
from nnhal_pages.charts.looks import legend, memory_patterns
from nnhal_pages.charts.measures import BYTES, COUNT
from nnhal_pages.patterns import DeviceLane, device_lanes, patterns
from nnhal_pages.svg import Drawing, Scale, element, label, rounded, title
from nnhal_pages.units import size

_HEIGHT = 300
"""The height of the rectangle of values."""
_RESERVED = "reserved"
_ROOM = 0.04
"""How much of the picture is left beyond addresses, as a share."""
_Span = admin_pb2.MemorySpan


def memory_chart(figure: admin_pb2.MemoryFigure, name: str, width: int = 1100) -> Drawing:
    """Draw addresses upwards and time to the right. What is reserved has a dashed outline.

    ``name`` begins the ids of patterns: it is the chart's own on its page. A figure without spans has an empty frame.
    """
    used = max((span.address + span.bytes for span in figure.spans), default=0)
    shows_limit = 0 < figure.limit_bytes <= 2 * max(used, 1)
    kinds = memory_patterns(span.kind for span in figure.spans if span.kind != _RESERVED)
    keys = {kind: DeviceLane(0, pattern) for kind, pattern in kinds.items()}
    key = legend(keys, name, 8, width - 8, 8)
    top = key.height + LINE
    high = max(used, figure.limit_bytes if shows_limit else 0, 1)
    low = min((span.address for span in figure.spans), default=0)
    margin = (high - low) * _ROOM if low > high / 2 else high * _ROOM
    up = Scale(low - margin if low > high / 2 else 0, high + margin, top + _HEIGHT, top)
    ticks = list(BYTES.ticks(up, 5))
    frame = Frame(room_for(tick.text for tick in ticks), width - 16, top, top + _HEIGHT)
    across = Scale(0, max((span.end for span in figure.spans), default=0.0) or 1.0, frame.left, frame.right)
    groups = _groups(figure.spans, kinds)
    ground = _Ground(across, up, name)
    parts = [
        patterns(name, [*(group.look for group in groups), *keys.values()]),
        key.content,
        up_axis(frame, up, ticks),
        across_axis(frame, across, COUNT.ticks(across, 8)),
        label((frame.left + frame.right) / 2, frame.bottom + 2.4 * LINE, figure.unit, "muted middle"),
        *(ground.drawn(group) for group in sorted(groups, key=lambda each: each.kind != _RESERVED)),
        *(ground.named(group) for group in groups),
        ground.limit(figure.limit_bytes, frame) if shows_limit else "",
        "" if figure.spans else label(width / 2, top + _HEIGHT / 2, "nothing lies in it", "muted middle over"),
    ]
    summary = f"{figure.name} over the time of a run: {BYTES.words(used)} used"
    if figure.limit_bytes:
        summary += f" of {BYTES.words(figure.limit_bytes)}"
    return Drawing(width, round(frame.bottom + 3 * LINE), summary, "".join(parts))


@dataclass(frozen=True, slots=True)
class _Group:
    """Spans of one thing and one kind."""

    name: str
    kind: str
    look: DeviceLane
    spans: Sequence[_Span]

    def summary(self) -> str:
        begin, end = min(span.begin for span in self.spans), max(span.end for span in self.spans)
        held = size(sum(span.bytes for span in self.spans))
        place = f"at {self.spans[0].address:#x}" if len(self.spans) == 1 else f"in {len(self.spans)} pieces"
        return f"{self.name} ({self.kind}): {held} {place}, {begin:,.0f} to {end:,.0f}"


def _groups(spans: Iterable[_Span], kinds: Mapping[str, int]) -> list[_Group]:
    """Group spans by what they hold, with a colour for each name."""
    found: dict[tuple[str, str], list[_Span]] = {}
    for span in spans:
        found.setdefault((span.name, span.kind), []).append(span)
    lanes = device_lanes(name for name, _ in found)
    return [
        _Group(name, kind, DeviceLane(lanes[name].colour, kinds.get(kind, 0)), held)
        for (name, kind), held in found.items()
    ]


@dataclass(frozen=True, slots=True)
class _Ground:
    """Ground on which spans are drawn."""

    across: Scale
    up: Scale
    name: str

    def drawn(self, group: _Group) -> str:
        path = "".join(map(self._bar, group.spans))
        if group.kind == _RESERVED:
            return element("path", class_=f"reserved {group.look.class_}", d=path)
        look = {"class_": f"held {group.look.class_}", "fill": group.look.fill(self.name)}
        return element("path", title(group.summary()), **look, d=path)

    def named(self, group: _Group) -> str:
        """The name in the largest span, if that has room for it."""
        span = max(group.spans, key=lambda each: each.bytes * (each.end - each.begin))
        text = fitted(group.name, self.across(span.end) - self.across(span.begin) - 8)
        high = self.up(span.address) - self.up(span.address + span.bytes)
        if group.kind == _RESERVED or not text or high < LINE:
            return ""
        middle = (self.across(span.begin) + self.across(span.end)) / 2
        return label(middle, self.up(span.address + span.bytes / 2) + 4, text, "middle over")

    def limit(self, size: int, frame: Frame) -> str:
        y = self.up(size)
        line = element("line", class_="limit", x1=frame.left, x2=frame.right, y1=y, y2=y)
        return line + label(frame.right - 4, y - 5, f"limit {BYTES.words(size)}", "limit-label end over")

    def _bar(self, span: _Span) -> str:
        left, right = self.across(span.begin), self.across(span.end)
        top, bottom = self.up(span.address + span.bytes), self.up(span.address)
        return f"M{rounded(left)} {rounded(top)}H{rounded(right)}V{rounded(bottom)}H{rounded(left)}z"
