"""Points that can be pointed at or reached by keyboard, with words beside them that are shown then."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal_pages.charts.frame import LINE, wide
from nnhal_pages.svg import element, label, title
from nnhal_pages.text import shortened

_NAME = 48
"""Characters of a line beside a point."""


def point(lines: Sequence[str], x: float, y: float, width: float, class_: str = "point", radius: int = 4) -> str:
    """Draw a point with its words; the first is a name, which is shortened if need be.

    ``width`` is the picture's: the words are to the left of a point that is too far to the right.
    """
    shown = title(*lines) + element("circle", class_="reach", cx=x, cy=y, r=12)
    shown += element("circle", class_="mark", cx=x, cy=y, r=radius) + _tip(lines, x, y, width)
    return element("g", shown, class_=class_, tabindex=0, role="img", aria_label=", ".join(lines))


def _tip(lines: Sequence[str], x: float, y: float, width: float) -> str:
    short = [shortened(lines[0], _NAME), *lines[1:]]
    room, high = max(map(wide, short)) + 20, LINE * len(short) + 12
    left = x + 12 if x + 12 + room <= width - 4 else max(x - 12 - room, 4)
    top = max(y - high - 8, 4)
    texts = (label(left + 10, top + 18 + LINE * number, line) for number, line in enumerate(short))
    box = element("rect", x=left, y=top, width=room, height=high, rx=4)
    return element("g", box + "".join(texts), class_="tip", aria_hidden="true")
