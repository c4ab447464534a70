"""Marks of what happened at instants, above the lines of a chart; each is a link to more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnhal_pages.charts.frame import Frame
from nnhal_pages.charts.series import TimeWindow
from nnhal_pages.svg import Scale, element, label, title

SIGNS: Mapping[str, str] = {
    "death": "✕",
    "hang": "◔",
    "overload": "»",
    "failure": "!",
    "fault": "*",
    "fallback": "↓",
    "plan": "↔",
    "drain": "◐",
    "unload": "−",  # noqa: RUF001 - a minus sign on purpose
    "load": "+",
    "start": "▲",
    "change": "✎",
}
"""The sign of each kind, the gravest first: it stands for all of several that are too close to each other."""
_GRAVITY = {kind: number for number, kind in enumerate(SIGNS)}
_TOLD = 12
"""Events that one sign tells of, the gravest."""
_APART = 20.0
"""Marks are at least so far from each other."""


@dataclass(frozen=True, slots=True)
class ChartMark:
    """Something that happened."""

    at: float
    """Seconds since the epoch."""
    kind: str
    """One of SIGNS."""
    text: str
    """What happened, in a sentence that begins with its time: a script may write that of another zone."""
    page: str
    """The address of a page that says more."""


def marked(marks: Sequence[ChartMark], frame: Frame, across: Scale, window: TimeWindow) -> str:
    """Draw a dashed line at each instant, and a sign above it. Of marks that are too close together, the gravest has
    the sign, and all are told.
    """
    shown = sorted((mark for mark in marks if window.begin <= mark.at <= window.end), key=lambda mark: mark.at)
    groups: list[list[ChartMark]] = []
    for mark in shown:
        if groups and across(mark.at) - across(groups[-1][0].at) < _APART:
            groups[-1].append(mark)
        else:
            groups.append([mark])
    return "".join(_drawn(group, frame, across(group[0].at)) for group in groups)


def _drawn(group: Sequence[ChartMark], frame: Frame, x: float) -> str:
    gravely = sorted(group, key=lambda mark: _GRAVITY[mark.kind])
    shown = sorted(gravely[:_TOLD], key=lambda mark: mark.at)
    texts = [mark.text for mark in shown]
    if len(group) > _TOLD:
        texts.append(f"and {len(group) - _TOLD} more")
    parts = title(*texts) + element("line", class_="mark-line", x1=x, x2=x, y1=frame.top, y2=frame.bottom)
    # The line is too thin to be hit.
    parts += element("rect", class_="reach", x=x - 8, y=frame.top - 16, width=16, height=frame.bottom - frame.top + 16)
    parts += element("rect", class_="mark-box", x=x - 8, y=frame.top - 16, width=16, height=16, rx=3)
    sign = gravely[0].kind
    parts += label(x, frame.top - 4, SIGNS[sign], f"middle mark-sign mark-{sign}")
    words = f"{len(group)} events: {'; '.join(texts)}" if len(group) > 1 else texts[0]
    at = " ".join(f"{mark.at:.0f}" for mark in shown)
    # The page has a list of the events, which is shorter by keyboard than the marks of all charts.
    return element("a", parts, class_="event-mark", href=gravely[0].page, aria_label=words, data_at=at, tabindex=-1)
