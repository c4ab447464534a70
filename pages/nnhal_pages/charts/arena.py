"""An arena over the steps of a plan: which bytes hold which value, from the step that writes it to the last reader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from nnhal_pages.charts.frame import LINE, Frame, across_axis, fitted, room_for, up_axis
from nnhal_pages.charts.measures import BYTES, Tick
from nnhal_pages.patterns import DeviceLane, device_lanes, patterns
from nnhal_pages.svg import Drawing, Scale, element, label, title
from nnhal_pages.units import size

_HEIGHT = 240
_STEP = 96
"""The width of a step, if there are not so many that they must be narrower."""
_ROOM = 1.04


class ArenaRange(Protocol):
    """A value in an arena, as an explanation or the wire has it."""

    @property
    def value(self) -> str: ...

    @property
    def memory(self) -> str:
        """The arena: one for each kind of memory."""
        ...

    @property
    def offset(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def first_step(self) -> int:
        """The step that writes it."""
        ...

    @property
    def last_step(self) -> int:
        """The last step that reads it."""
        ...


def arena_charts(values: Sequence[ArenaRange], devices: Sequence[str], name: str, width: int = 900) -> list[Drawing]:
    """Draw each arena: addresses upwards, steps to the right. None if no value lies in an arena.

    ``devices`` has the device of each step. ``name`` begins the ids of patterns: it is the charts' own on their page.
    """
    memories = dict.fromkeys(value.memory for value in values)
    return [
        _arena(memory, [value for value in values if value.memory == memory], devices, f"{name}-{number}", width)
        for number, memory in enumerate(memories)
    ]


def _arena(memory: str, values: Sequence[ArenaRange], devices: Sequence[str], name: str, width: int) -> Drawing:
    size = max(value.offset + value.bytes for value in values)
    top = 1.5 * LINE
    up = Scale(0, max(size, 1) * _ROOM, top + _HEIGHT, top)
    ticks = list(BYTES.ticks(up, 4))
    left = room_for(tick.text for tick in ticks)
    steps = max(len(devices), 1 + max(value.last_step for value in values))
    frame = Frame(left, left + min(steps * _STEP, width - left - 16), top, top + _HEIGHT)
    across = Scale(0, steps, frame.left, frame.right)
    looks = {value: DeviceLane(lane.colour) for value, lane in device_lanes(each.value for each in values).items()}
    parts = [
        patterns(name, looks.values()),
        label(8, 12, f"Address in the arena of {memory}", "muted"),
        up_axis(frame, up, ticks),
        across_axis(frame, across, _steps(devices, steps, across)),
        *_walls(steps, across, frame),
        *(_value(value, looks[value.value], name, across, up) for value in values),
    ]
    summary = f"The arena of {memory} over {steps} steps: {len(values)} values in {BYTES.words(size)}"
    return Drawing(round(max(frame.right + 16, 260)), round(frame.bottom + 2 * LINE), summary, "".join(parts))


def _steps(devices: Sequence[str], steps: int, across: Scale) -> Iterable[Tick]:
    """The words below the steps: their numbers, with the device if there is room."""
    for step in range(steps):
        device = devices[step] if step < len(devices) else ""
        text = fitted(f"{step} {device}".strip(), (across.end - across.start) / steps - 10)
        yield Tick(step + 0.5, text or f"{step}")


def _walls(steps: int, across: Scale, frame: Frame) -> list[str]:
    """Lines between steps, unless they would be all that is seen."""
    if (across.end - across.start) / steps < 6:
        return []
    return [
        element("line", class_="grid", x1=across(step), x2=across(step), y1=frame.top, y2=frame.bottom)
        for step in range(1, steps + 1)
    ]


def _value(value: ArenaRange, look: DeviceLane, name: str, across: Scale, up: Scale) -> str:
    left, right = across(value.first_step) + 1, across(value.last_step + 1) - 1
    top, bottom = up(value.offset + value.bytes), up(value.offset)
    box = {"x": left, "y": top, "width": max(right - left, 1.0), "height": max(bottom - top, 1.0)}
    summary = (
        f"{value.value}: {size(value.bytes)} at {size(value.offset)}, steps {value.first_step} to {value.last_step}, "
        f"arena of {value.memory}"
    )
    bar = element("rect", title(summary), class_=f"held {look.class_}", fill=look.fill(name), **box)
    text = fitted(value.value, right - left - 8)
    if not text or bottom - top < LINE:
        return bar
    return bar + label((left + right) / 2, (top + bottom) / 2 + 4, text, "middle over")
