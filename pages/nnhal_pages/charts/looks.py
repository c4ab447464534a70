"""The looks of kinds of things and their legend, the same in all charts. An unknown kind has a look of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from nnhal_pages.charts.frame import LINE, wide
from nnhal_pages.patterns import DeviceLane
from nnhal_pages.svg import element, label

_Look = TypeVar("_Look")
_MEMORY = {
    "feature map": 0,
    "result": 0,
    "value": 0,
    "rolling buffer": 2,
    "weights": 1,
    "pinned weights": 3,
    "stripe": 4,
}
"""Patterns: the colour tells one thing from another."""
_WORK = {
    "request": DeviceLane(0, 0),
    "compute": DeviceLane(1, 0),
    "copy": DeviceLane(2, 1),
    "wire": DeviceLane(5, 3),
    "wait": DeviceLane(0, 2),
    "queue": DeviceLane(0, 2),
    "input": DeviceLane(3, 4),
    "run": DeviceLane(6, 0),
    "output": DeviceLane(4, 6),
}
_OTHERS = (DeviceLane(6, 4), DeviceLane(5, 5), DeviceLane(3, 6), DeviceLane(4, 4))


def memory_patterns(kinds: Iterable[str]) -> dict[str, int]:
    return _looks(kinds, _MEMORY, (5, 6))


def work_looks(kinds: Iterable[str]) -> dict[str, DeviceLane]:
    return _looks(kinds, _WORK, _OTHERS)


def _looks(kinds: Iterable[str], known: Mapping[str, _Look], others: tuple[_Look, ...]) -> dict[str, _Look]:
    asked = dict.fromkeys(kinds)
    unknown = [kind for kind in asked if kind not in known]
    looks = {kind: known[kind] for kind in known if kind in asked}
    return looks | {kind: others[number % len(others)] for number, kind in enumerate(unknown)}


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
