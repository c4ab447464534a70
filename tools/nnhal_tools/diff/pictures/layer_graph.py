"""The graph of a model's layers, coloured by error."""

from __future__ import annotations

from nnhal_pages.graph.boxes import fitting, moved
from nnhal_pages.graph.lines import PlanLine, drawn_lines
from nnhal_pages.layout import LayoutLink, NodeShape, layered
from nnhal_pages.svg import Drawing, element, label, title
from nnhal_tools.diff.pictures.levels import level_of
from nnhal_tools.diff.report import DiffReport, LayerDiff
from nnhal_tools.diff.words import sqnr_words, title_of

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
