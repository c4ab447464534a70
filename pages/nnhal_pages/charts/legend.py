"""Legends: what a look means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from nnhal_pages.charts.frame import LINE, wide
from nnhal_pages.patterns import DeviceLane
from nnhal_pages.svg import element, label

_BOX, _GAP = 12, 16


class Legend(NamedTuple):
    """The drawn legend, and how high it is."""

    content: str
    height: float


def legend(looks: Mapping[str, DeviceLane], name: str, left: float, right: float, top: float) -> Legend:
    """Draw the look of each word, in as many lines as that takes. The looks' patterns are those of ``name``."""
    parts = []
    x, y = left, top
    for text, lane in looks.items():
        width = _BOX + 6 + wide(text)
        if x > left and x + width > right:
            x, y = left, y + LINE + 4
        box = element(
            "rect", class_=f"swatch-box {lane.class_}", x=x, y=y, width=_BOX, height=_BOX, fill=lane.fill(name)
        )
        parts.append(box + label(x + _BOX + 6, y + 10, text, "muted"))
        x += width + _GAP
    return Legend("".join(parts), y + LINE + 8 - top if looks else 0.0)
