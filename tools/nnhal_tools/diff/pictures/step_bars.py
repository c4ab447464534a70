"""How many elements of a quantised value are how many steps off."""

from __future__ import annotations

from nnhal_pages.charts.frame import LINE, Frame, across_axis, room_for, up_axis
from nnhal_pages.charts.measures import COUNT, Tick
from nnhal_pages.svg import Drawing, Scale, element, label, title
from nnhal_tools.diff.figures import Figures

_WIDTH, _HEIGHT = 560, 180


def step_bars(figures: Figures, what: str) -> Drawing:
    """Draw a bar for each number of steps between the two sides; equal elements are not drawn, but counted."""
    counts = {step: count for step, count in figures.steps.items() if step}
    reach = max((abs(step) for step in counts), default=1)
    top, bottom = 1.75 * LINE, _HEIGHT - 1.5 * LINE
    up = Scale(0, max([1, *counts.values()]), bottom, top)
    ticks = list(COUNT.ticks(up, 3))
    frame = Frame(room_for(tick.text for tick in ticks), _WIDTH - 24, top, bottom)
    across = Scale(-reach - 0.5, reach + 0.5, frame.left, frame.right)
    axis = [Tick(step, f"{step:+d}" if step else "0") for step in range(-reach, reach + 1)]
    half = max((across(1) - across(0)) / 2 - 1, 0.5)
    bars = [
        element(
            "rect",
            title(f"{count:,} elements are {step:+d} steps from the reference"),
            class_="bar",
            x=across(step) - half,
            y=up(count),
            width=2 * half,
            height=max(up(0) - up(count), 1.0),
        )
        for step, count in counts.items()
    ]
    told = f"Steps from the reference: {what}, {figures.steps.get(0, 0):,} of {figures.elements:,} elements are equal"
    axes = up_axis(frame, up, ticks) + across_axis(frame, across, axis)
    return Drawing(_WIDTH, _HEIGHT, told, label(0, 12, told, "muted") + axes + "".join(bars))
