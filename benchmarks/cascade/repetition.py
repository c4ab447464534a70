"""How much a schedule computes twice."""

from __future__ import annotations

from nnhal_cascade.schedule.schedule import Schedule
from nnhal_cascade.schedule.walk import demanded_boxes


def repetition(schedule: Schedule) -> float:
    """Return the elements that a schedule computes, over those that there are: 1 if nothing is computed twice."""
    graph = schedule.graph
    computed = sum(
        box.shape.elements
        for plan in schedule.proposal.plans
        for tile in plan.tiles
        for box in demanded_boxes(graph, plan, tile).values()
    )
    return computed / sum(graph.tensors[part.output].shape.elements for part in graph.parts)
