"""The picture of a comparison: the layers coloured by error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nnhal_pages.graph.boxes import fitting, moved
from nnhal_pages.graph.lines import PlanLine, drawn_lines
from nnhal_pages.layout import LayoutLink, NodeShape, layered
from nnhal_pages.report import Markup
from nnhal_pages.svg import Drawing, element, label, title
from nnhal_pages.text import escaped
from nnhal_tools.distance.figures import Figures

GRAPH = (
    "Colours are the signal-to-noise ratio in the model. A thick frame is an error over the limits that is made "
    "there, a dashed one an error over the limits that is inherited, or noise. A box leads to its layer."
)
_BOUNDS = (60.0, 40.0, 20.0)
"""Decibels from which on the first levels after 'equal' begin."""
_LEVELS = {
    "level-0": "equal bits",
    "level-1": "60 dB or more",
    "level-2": "40 dB or more",
    "level-3": "20 dB or more",
    "level-4": "less than 20 dB",
    "level-none": "not compared",
}
"""What each class means, from the least error to the most."""
_WIDTH, _HEIGHT, _LEFT, _MARGIN, _WIDEST = 196, 60, 10, 6, 1180


class LayerBox(NamedTuple):
    """A layer as the graph has it."""

    number: int
    operations: Sequence[str]
    title: str
    told: str
    """Its error in words."""
    more: Sequence[str]
    """What is shown beside the pointer."""
    sources: Sequence[int]
    """The layers whose values it reads, by their numbers."""
    error: Figures | None
    origin: str


def level_of(error: Figures | None) -> str:
    """Return the class of an error."""
    if error is None:
        return "level-none"
    if error.is_equal:
        return "level-0"
    if error.unmatched or error.sqnr is None:
        return "level-4"
    sqnr = error.sqnr
    return f"level-{next((place for place, bound in enumerate(_BOUNDS, 1) if sqnr >= bound), 4)}"


def legend() -> Markup:
    """Return what the colours mean."""
    items = "".join(f"<li class='{level}'>{escaped(words)}</li>" for level, words in _LEVELS.items())
    return Markup(f"<ul class='levels' aria-label='Colours'>{items}</ul>")


def layer_graph(layers: Sequence[LayerBox]) -> Drawing:
    """Draw the layers from the top down. A box leads to what the page says of its layer."""
    places = {layer.number: place for place, layer in enumerate(layers)}
    lines = [
        PlanLine(LayoutLink(places[source], place), (f"layer {source} to layer {layer.number}",))
        for place, layer in enumerate(layers)
        for source in layer.sources
    ]
    shapes = [NodeShape(_WIDTH, _HEIGHT) for _ in layers]
    layout = layered(shapes, [line.link for line in lines], _WIDEST)
    boxes = [moved(_drawn(layer), *place) for layer, place in zip(layers, layout.places, strict=True)]
    drawn = moved(drawn_lines(layout, lines, shapes) + "".join(boxes), _MARGIN, _MARGIN)
    return Drawing(
        round(layout.width) + 2 * _MARGIN,
        round(layout.height) + 2 * _MARGIN,
        f"Graph of {len(layers)} layers, coloured by error",
        element("g", drawn, class_="graph layers"),
        interactive=True,
    )


def _drawn(layer: LayerBox) -> str:
    words = f"layer {layer.number}, {' + '.join(layer.operations)}, {layer.title}: {layer.told}"
    parts = [
        title(words, *layer.more),
        element("rect", class_="frame", x=0.5, y=0.5, width=_WIDTH - 1, height=_HEIGHT - 1, rx=4),
        label(_LEFT, 19, fitting(f"{layer.number} {' + '.join(layer.operations)}", _WIDTH - 2 * _LEFT, True), "strong"),
        label(_LEFT, 35, fitting(layer.title, _WIDTH - 2 * _LEFT), "muted"),
        label(_LEFT, 51, fitting(layer.told, _WIDTH - 2 * _LEFT)),
    ]
    look = f"node {level_of(layer.error)}{f' origin-{layer.origin}' if layer.origin else ''}"
    return element("a", "".join(parts), href=f"#layer-{layer.number}", class_=look, aria_label=words)
