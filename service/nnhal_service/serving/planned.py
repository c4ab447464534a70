"""What a run does by plan: which edges its values pass, and what is copied on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from nnhal_service.fallback import CLIENT, Side, connect
from nnhal_service.runtime import PreparedPlan


class PlannedEdge(NamedTuple):
    """A use of a value, by the devices that write and read it, empty for the client."""

    source: str
    destination: str
    strategy: str
    bytes: int
    copied_bytes: int


def planned_steps(prepared: PreparedPlan) -> tuple[str, ...]:
    """The device of each step; none where control flow decides which of them run."""
    return () if prepared.plan.walk is not None else tuple(step.device for step in prepared.plan.steps)


def planned_edges(prepared: PreparedPlan, kind: str, sizes: Mapping[int, int]) -> tuple[PlannedEdge, ...]:
    """An edge for each use of a value. Those of the model's inputs and outputs lie in memory of one kind.

    ``sizes`` are those of inputs and outputs, by operand.
    """

    def side(step: int | None) -> Side:
        return CLIENT if step is None else prepared.sides[prepared.plan.steps[step].device]

    def name(step: int | None) -> str:
        return "" if step is None else prepared.plan.steps[step].device

    return tuple(
        PlannedEdge(name(value.writer), name(reader), edge.strategy.value, size, edge.copied_bytes)
        for value in prepared.values.values()
        for size in [value.size or sizes.get(value.operand, 0)]
        for reader, edge in zip(
            value.destinations,
            connect(
                side(value.writer),
                [side(step) for step in value.destinations],
                size,
                (value.kind if value.is_ours else kind,),
            ),
            strict=True,
        )
    )
