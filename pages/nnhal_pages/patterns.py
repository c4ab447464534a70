"""Patterns that tell devices apart: by a colour and by a pattern, so that neither has to be seen alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nnhal_pages.svg import element

_COLOURS = 6
_MARKS = {
    1: element("path", d="M-2 2L2-2M0 8L8 0M6 10L10 6"),
    2: element("circle", cx=2, cy=2, r=1.4) + element("circle", cx=6, cy=6, r=1.4),
    3: element("path", d="M-2 6L2 10M0 0L8 8M6-2L10 2"),
    4: element("path", d="M0 2H8M0 6H8"),
    5: element("path", d="M0 4H8M4 0V8"),
    6: element("path", d="M2 0V8M6 0V8"),
}
"""Drawn in tiles of 8 by 8. The pattern 0 has no mark."""


@dataclass(frozen=True, slots=True)
class DeviceLane:
    """The look of a device. Both numbers are from 1 on; 0 is for what runs on no device."""

    colour: int = 0
    pattern: int = 0

    @property
    def class_(self) -> str:
        """The class that sets the colour ``--lane``."""
        return f"lane-{self.colour}"

    @property
    def classes(self) -> str:
        """The classes of a device's mark in HTML, which has the same pattern by its style sheet."""
        return f"lane-{self.colour} pattern-{self.pattern}"

    def fill(self, name: str) -> str:
        """Return the attribute ``fill`` for the pattern, of those that ``patterns(name, …)`` defined."""
        return f"url(#{self._id(name)})"

    def definition(self, name: str) -> str:
        """Return the element that defines the pattern."""
        ground = element("rect", class_="pattern-ground", width=8, height=8)
        mark = element("g", _MARKS[self.pattern], class_="pattern-mark") if self.pattern else ""
        size = {"width": 8, "height": 8, "patternUnits": "userSpaceOnUse"}
        return element("pattern", ground + mark, id=self._id(name), class_=self.class_, **size)

    def _id(self, name: str) -> str:
        return f"{name}-pattern-{self.colour}-{self.pattern}"


def device_lanes(names: Iterable[str]) -> dict[str, DeviceLane]:
    """Return a look for each device, in their order. The first 36 differ."""
    return {
        name: DeviceLane(number % _COLOURS + 1, (number + number // _COLOURS) % _COLOURS + 1)
        for number, name in enumerate(dict.fromkeys(names))
    }


def patterns(name: str, lanes: Iterable[DeviceLane]) -> str:
    """Return the definitions of some looks. ``name`` begins their ids, and is the drawing's own on its page."""
    return element("defs", "".join(lane.definition(name) for lane in dict.fromkeys(lanes)))
