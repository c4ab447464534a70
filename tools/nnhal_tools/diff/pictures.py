"""The pictures of a comparison: the layers coloured by error, and how far quantised values are off."""

from __future__ import annotations

from nnhal_pages.charts.frame import LINE, Frame, across_axis, room_for, up_axis
from nnhal_pages.charts.measures import COUNT, Tick
from nnhal_pages.graph.boxes import fitting, moved
from nnhal_pages.graph.lines import PlanLine, drawn_lines
from nnhal_pages.layout import LayoutLink, NodeShape, layered
from nnhal_pages.svg import Drawing, Scale, element, label, title
from nnhal_tools.diff.report import DiffReport, LayerDiff
from nnhal_tools.diff.text import sqnr_words, title_of
from nnhal_tools.distance.figures import Figures

_BARS_WIDTH, _BARS_HEIGHT = 560, 180
_BOUNDS = (60.0, 40.0, 20.0)
"""Decibels from which on the first levels after 'equal' begin."""
LEVELS = {
    "level-0": "equal bits",
    "level-1": "60 dB or more",
    "level-2": "40 dB or more",
    "level-3": "20 dB or more",
    "level-4": "less than 20 dB",
    "level-none": "not compared",
}
"""What each class means, from the least error to the most."""


def level_of(layer: LayerDiff) -> str:
    """Return the class of a layer's error."""
    if layer.error is None:
        return "level-none"
    if layer.error.is_equal:
        return "level-0"
    sqnr = layer.error.sqnr
    if layer.error.unmatched or sqnr is None:
        return "level-4"
    return f"level-{next((place for place, bound in enumerate(_BOUNDS, 1) if sqnr >= bound), 4)}"


_WIDTH, _HEIGHT = 196, 60
_LEFT = 10
_WIDEST = 1180
_MARGIN = 6


def layer_graph(report: DiffReport) -> Drawing:
    """Draw the layers from the top down. A box leads to what the page says of its layer."""
    places = {layer.number: place for place, layer in enumerate(report.layers)}
    lines = [
        PlanLine(LayoutLink(places[source], place), (f"layer {source} to layer {layer.number}",))
        for place, layer in enumerate(report.layers)
        for source in layer.sources
    ]
    shapes = [NodeShape(_WIDTH, _HEIGHT) for _ in report.layers]
    layout = layered(shapes, [line.link for line in lines], _WIDEST)
    boxes = [moved(_box(layer), *place) for layer, place in zip(report.layers, layout.places, strict=True)]
    drawn = moved(drawn_lines(layout, lines, shapes) + "".join(boxes), _MARGIN, _MARGIN)
    return Drawing(
        round(layout.width) + 2 * _MARGIN,
        round(layout.height) + 2 * _MARGIN,
        f"Graph of {len(report.layers)} layers, coloured by error",
        element("g", drawn, class_="graph layers"),
        interactive=True,
    )


def _box(layer: LayerDiff) -> str:
    error, name = sqnr_words(layer.error), title_of(layer)
    more = f"{error}, {layer.origin}" if layer.origin else error
    told = f"layer {layer.number}, {layer.kind}, {name}: {more}"
    parts = [
        title(told, *layer.over, *([layer.fused] if layer.fused else [])),
        element("rect", class_="frame", x=0.5, y=0.5, width=_WIDTH - 1, height=_HEIGHT - 1, rx=4),
        label(_LEFT, 19, fitting(f"{layer.number} {' + '.join(layer.operations)}", _WIDTH - 2 * _LEFT, True), "strong"),
        label(_LEFT, 35, fitting(name, _WIDTH - 2 * _LEFT), "muted"),
        label(_LEFT, 51, fitting(more, _WIDTH - 2 * _LEFT)),
    ]
    look = f"node {level_of(layer)}{f' origin-{layer.origin}' if layer.origin else ''}"
    return element("a", "".join(parts), href=f"#layer-{layer.number}", class_=look, aria_label=told)


def step_bars(figures: Figures, what: str) -> Drawing:
    """Draw a bar for each number of steps between the two sides; equal elements are not drawn, but counted."""
    counts = {step: count for step, count in figures.steps.items() if step}
    reach = max((abs(step) for step in counts), default=1)
    top, bottom = 1.75 * LINE, _BARS_HEIGHT - 1.5 * LINE
    up = Scale(0, max([1, *counts.values()]), bottom, top)
    ticks = list(COUNT.ticks(up, 3))
    frame = Frame(room_for(tick.text for tick in ticks), _BARS_WIDTH - 24, top, bottom)
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
    return Drawing(_BARS_WIDTH, _BARS_HEIGHT, told, label(0, 12, told, "muted") + axes + "".join(bars))
