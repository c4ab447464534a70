"""The graph of a plan as a drawing."""

from __future__ import annotations

from nnhal_client.explanation import Explanation
from nnhal_pages.graph.boxes import moved
from nnhal_pages.graph.lines import drawn_lines
from nnhal_pages.graph.outline import PlanOutline
from nnhal_pages.graph.view import GraphView
from nnhal_pages.layout import layered
from nnhal_pages.patterns import DeviceLane, device_lanes, patterns
from nnhal_pages.svg import Drawing, element

_WIDEST, _WIDEST_WITHIN = 1180, 1010
"""Rows of steps, and rows of operations within one, are not wider if they can be split."""
_MARGIN = 6


def plan_graph(explanation: Explanation, view: GraphView) -> Drawing:
    """Draw a plan from the top down: the client, the steps, the edges between them; open steps with their operations.

    Its page has ``drawing_style()``.
    """
    lanes = device_lanes(device.name for device in explanation.devices)
    outline = PlanOutline(explanation, lanes, _WIDEST_WITHIN, view)
    layout = layered(outline.shapes, [line.link for line in outline.lines], _WIDEST)
    placed = [moved(box.content, *place) for box, place in zip(outline.boxes, layout.places, strict=True)]
    used = [DeviceLane(), *(lanes.get(step.device, DeviceLane()) for step in explanation.steps)]
    drawn = moved(drawn_lines(layout, outline.lines, outline.shapes) + "".join(placed), _MARGIN, _MARGIN)
    told = f"Graph of a plan with {len(explanation.steps)} steps and {len(explanation.operations)} operations"
    return Drawing(
        round(layout.width) + 2 * _MARGIN,
        round(layout.height) + 2 * _MARGIN,
        told,
        element("g", patterns(view.name, used) + drawn, class_="graph"),
        interactive=True,
    )
