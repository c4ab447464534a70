"""Memory that a plan needs, found by walking it: exact, for chains and branches, in both directions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nnhal_cascade.geometry.box import Axis, Interval, Shape, hull
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.plans.plan import Plan
from nnhal_cascade.schedule.walk import StripeRun, demanded_boxes, escapes


@dataclass(slots=True)
class PlanProfile:
    """The rolling buffers of a plan, and how close its outputs may lie to its dying inputs."""

    extents: dict[int, Shape] = field(default_factory=dict)
    """The least buffer of each tensor between parts of the plan."""
    below: dict[tuple[int, int], int] = field(default_factory=dict)
    """For (output, dying input): the input's address is at least the output's plus this, if the output lies below."""
    above: dict[tuple[int, int], int] = field(default_factory=dict)
    """For (output, dying input): the output's address is at least the input's plus this, if the output lies above."""


def advances_by_rows(graph: CascaderGraph, plan: Plan) -> bool:
    """Return whether a plan completes its output row by row, or band of rows by band."""
    shape = graph.tensors[graph.parts[plan.parts[-1]].output].shape
    if len(plan.tiles) == 1:
        return plan.along == Axis.ROWS
    return all(tile.shape.columns == shape.columns and tile.shape.channels == shape.channels for tile in plan.tiles)


def profile(graph: CascaderGraph, plan: Plan, runs: Iterable[StripeRun]) -> PlanProfile:
    """Return what a plan needs, given a walk of it."""
    return _Observer(graph, plan).observe(runs)


class _Observer:
    """Follows which elements of each tensor are written and alive."""

    def __init__(self, graph: CascaderGraph, plan: Plan) -> None:
        inside = set(plan.parts)
        written = [graph.parts[part].output for part in plan.parts]
        self._graph, self._plan, self._found = graph, plan, PlanProfile()
        self._outputs = {each for each in written if each == written[-1] or escapes(graph, each, inside)}
        self._interior = set(written) - self._outputs
        self._by_rows = advances_by_rows(graph, plan)
        read = {each.tensor for part in plan.parts for each in graph.parts[part].inputs}
        self._alive = {
            each: Interval(0, graph.tensors[each].shape.rows)
            for each in read - set(written)
            if not escapes(graph, each, inside)
        }
        self._written: dict[int, Interval] = {}
        self._live: dict[int, Interval] = {}
        for tile in plan.tiles:
            for part, box in demanded_boxes(graph, plan, tile).items():
                tensor = graph.parts[part].output
                if tensor in self._interior:
                    self._widen(tensor, box.along(plan.along, Interval(0, 1)).shape)

    def observe(self, runs: Iterable[StripeRun]) -> PlanProfile:
        for run in runs:
            tensor = self._graph.parts[run.part].output
            if tensor in self._interior:
                self._hold(tensor, run.output[self._plan.along])
            else:
                self._write(tensor, run.output.rows)
            for death in run.deaths:
                if death.tensor in self._interior:
                    self._live[death.tensor] = _without(self._live[death.tensor], death.from_, death.to)
                elif death.axis == Axis.ROWS and death.tensor in self._alive:
                    self._alive[death.tensor] = _without(self._alive[death.tensor], death.from_, death.to)
        return self._found

    def _hold(self, tensor: int, stripe: Interval) -> None:
        """A stripe joins the rolling buffer of a tensor."""
        live = self._live[tensor] = hull((self._live.get(tensor, stripe), stripe))
        extents = list(self._found.extents[tensor])
        extents[self._plan.along] = max(extents[self._plan.along], live.length)
        self._found.extents[tensor] = Shape(*extents)

    def _write(self, output: int, rows: Interval) -> None:
        """A stripe joins an output: it lies where no living row of a dying input does."""
        shape = self._graph.tensors[output].shape
        rows = rows if self._by_rows else Interval(0, shape.rows)
        written = self._written[output] = hull((self._written.get(output, rows), rows))
        pitch = _pitch(self._graph, output)
        for tensor, alive in self._alive.items():
            if alive.length:
                key, other = (output, tensor), _pitch(self._graph, tensor)
                below, above = written.stop * pitch - alive.start * other, alive.stop * other - written.start * pitch
                self._found.below[key] = max(below, self._found.below.get(key, below))
                self._found.above[key] = max(above, self._found.above.get(key, above))

    def _widen(self, tensor: int, shape: Shape) -> None:
        known = self._found.extents.get(tensor, shape)
        self._found.extents[tensor] = Shape(*map(max, known, shape))


def _pitch(graph: CascaderGraph, tensor: int) -> int:
    """The bytes of a row."""
    found = graph.tensors[tensor]
    return found.bytes // max(1, found.shape.rows)


def _without(interval: Interval, start: int, stop: int) -> Interval:
    """An interval without its start or its end."""
    if start <= interval.start:
        return Interval(max(interval.start, stop), interval.stop)
    return Interval(interval.start, min(interval.stop, start))
