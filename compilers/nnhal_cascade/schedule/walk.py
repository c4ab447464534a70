"""The stripes of a plan, and the order in which they run: on demand, from the last part to the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nnhal_cascade.geometry.accesses import AxisAccess
from nnhal_cascade.geometry.box import Axis, Box, Interval, cut, hull, whole
from nnhal_cascade.graph.cascader_graph import CascaderGraph, Part
from nnhal_cascade.graph.running_sums import runs_on
from nnhal_cascade.plans.plan import Plan


class Death(NamedTuple):
    """After a stripe, elements of a tensor are no longer needed."""

    tensor: int
    axis: Axis
    from_: int
    """The first element along the axis that died."""
    to: int
    """The element after the last that died."""


class StripeRun(NamedTuple):
    """One stripe of a part."""

    part: int
    """An index into the graph's parts."""
    output: Box
    inputs: tuple[Box, ...]
    """For each of the part's inputs, without its padding."""
    deaths: tuple[Death, ...]
    """What is dead when the stripe has run. A tensor that is not mentioned lives to the end of its last plan."""


def walk(graph: CascaderGraph, plan: Plan, backwards: bool = False) -> Iterator[StripeRun]:
    """Yield the stripes of a plan in the order in which they run.

    ``backwards`` runs the same tiles from the last to the first; a single tile runs the same stripes from its end to
    its start.
    """
    tiles = plan.tiles[::-1] if backwards else plan.tiles
    for position, tile in enumerate(tiles):
        yield from _Cascade(graph, plan, backwards, tile, tiles[position + 1 :]).run()


def demanded_boxes(graph: CascaderGraph, plan: Plan, tile: Box) -> dict[int, Box]:
    """Return, for each part of a plan, the box of its output that a tile of the last part's output needs.

    A tensor that is read after the plan, or that is an output of the network, is needed as a whole.
    """
    inside, boxes = set(plan.parts), {plan.parts[-1]: tile}
    for index in reversed(plan.parts):
        part = graph.parts[index]
        escaping = index != plan.parts[-1] and escapes(graph, part.output, inside)
        if index not in boxes or escaping or runs_on(graph, index):
            boxes[index] = whole(graph.tensors[part.output].shape)
        for each in part.inputs:
            producer = graph.producers[each.tensor]
            if producer in inside and producer not in (None, index):
                needed = each.needs(boxes[index])
                boxes[producer] = _united(boxes[producer], needed) if producer in boxes else needed
    return boxes


def escapes(graph: CascaderGraph, tensor: int, inside: set[int]) -> bool:
    """Return whether a tensor is needed after a group of parts."""
    last = max(inside)
    return graph.tensors[tensor].is_output or any(reader > last for reader in graph.consumers[tensor])


def _united(one: Box, other: Box) -> Box:
    return Box(*(hull(intervals) for intervals in zip(one, other, strict=True)))


def _stripes(box: Box, along: Axis, extent: int) -> list[Interval]:
    """Cut a box into stripes. If a tile needs nothing but padding of a tensor, there is nothing to compute."""
    return cut(box[along], extent) if 0 not in box.shape else []


class _Dying(NamedTuple):
    """A tensor that a part reads and that dies within the plan, along one axis."""

    tensor: int
    axis: Axis
    full: Interval
    """The interval of the whole tensor along the axis."""
    readers: tuple[tuple[int, tuple[AxisAccess, ...]], ...]
    """The parts of the plan that read it, with their dependencies along the axis."""
    later: Interval
    """What later tiles need of it, maybe nothing."""
    backwards: bool
    """True if it dies from its end to its start."""


class _Cascade:
    """The parts of a plan while they compute one tile."""

    def __init__(self, graph: CascaderGraph, plan: Plan, backwards: bool, tile: Box, later: tuple[Box, ...]) -> None:
        self._graph, self._plan, self._tiles_backwards = graph, plan, backwards
        self._backwards = backwards and len(plan.tiles) == 1
        self._inside = set(plan.parts)
        self._boxes = demanded_boxes(graph, plan, tile)
        self._later = [demanded_boxes(graph, plan, each) for each in later]
        self._stripes = {
            index: _stripes(self._boxes[index], plan.along, extent)[:: -1 if self._backwards else 1]
            for index, extent in zip(plan.parts, plan.stripes, strict=True)
        }
        self._dying = {index: tuple(self._dying_after(graph.parts[index])) for index in plan.parts}
        self._done = dict.fromkeys(plan.parts, 0)
        self._alive: dict[int, dict[Axis, Interval]] = {}
        self._runs: list[StripeRun] = []

    def run(self) -> Sequence[StripeRun]:
        last = self._plan.parts[-1]
        self._until(last, len(self._stripes[last]))
        for index in self._plan.parts:
            self._until(index, len(self._stripes[index]))
        return self._runs

    def _until(self, index: int, count: int) -> None:
        """Run stripes of a part until ``count`` of them have run."""
        part = self._graph.parts[index]
        while self._done[index] < count:
            output = self._boxes[index].along(self._plan.along, self._stripes[index][self._done[index]])
            inputs = tuple(each.needs(output) for each in part.inputs)
            for each, box in zip(part.inputs, inputs, strict=True):
                producer = self._graph.producers[each.tensor]
                if producer is not None and producer in self._inside and producer != index:
                    self._until(producer, self._covering(producer, box[self._plan.along]))
            self._done[index] += 1
            self._runs.append(StripeRun(index, output, inputs, tuple(self._deaths(index))))

    def _covering(self, index: int, wanted: Interval) -> int:
        """Return how many stripes of a part have to run until an interval of its output is there."""
        stripes = self._stripes[index]
        if not wanted.length:
            return self._done[index]
        done = self._done[index]
        while done < len(stripes) and (
            stripes[done].stop > wanted.start if self._backwards else stripes[done].start < wanted.stop
        ):
            done += 1
        return done

    def _dying_after(self, part: Part) -> Iterator[_Dying]:
        """Return the tensors that a part reads, and that no part after the plan reads."""
        for tensor in {each.tensor: None for each in part.inputs}:
            if escapes(self._graph, tensor, self._inside):
                continue
            producer = self._graph.producers[tensor]
            if producer is not None and producer in self._inside:
                if 0 in self._boxes[producer].shape:
                    continue
                axis, full = self._plan.along, self._boxes[producer][self._plan.along]
                later, backwards = list[dict[int, Box]](), self._backwards
            else:
                axis = self._plan.along if len(self._plan.tiles) == 1 else Axis.ROWS
                full = Interval(0, self._graph.tensors[tensor].shape[axis])
                later, backwards = self._later, self._tiles_backwards
            readers = tuple(
                (reader, tuple(each.along(axis) for each in self._graph.parts[reader].inputs if each.tensor == tensor))
                for reader in self._graph.consumers[tensor]
                if reader in self._inside
            )
            needed = [
                access.needs(boxes[reader][axis]) for boxes in later for reader, reads in readers for access in reads
            ]
            yield _Dying(tensor, axis, full, readers, hull(needed), backwards)

    def _deaths(self, part: int) -> Iterator[Death]:
        """Return what a part's last stripe leaves dead: what no part reads in this tile or later."""
        for each in self._dying[part]:
            yield from self._shrunk(each.tensor, each.axis, each.full, self._still_needed(each), each.backwards)

    def _still_needed(self, dying: _Dying) -> Interval | None:
        """The interval of a tensor that stripes have yet to read, None if there is none."""
        found = [dying.later] if dying.later.length else []
        for reader, accesses in dying.readers:
            stripes, done = self._stripes[reader], self._done[reader]
            if done == len(stripes):
                continue
            first, last = stripes[done], stripes[-1]
            wanted = Interval(min(first.start, last.start), max(first.stop, last.stop))
            if dying.axis != self._plan.along:
                wanted = self._boxes[reader][dying.axis]
            found += [needed for access in accesses if (needed := access.needs(wanted)).length]
        return hull(found) if found else None

    def _shrunk(
        self, tensor: int, axis: Axis, full: Interval, needed: Interval | None, backwards: bool
    ) -> Iterator[Death]:
        alive = self._alive.setdefault(tensor, {}).get(axis, full)
        if not alive.length:
            return
        if needed is None:
            self._alive[tensor][axis] = Interval(alive.stop, alive.stop)
            yield Death(tensor, axis, alive.start, alive.stop)
            return
        if backwards:
            start, stop = alive.start, min(alive.stop, needed.stop)
        else:
            start, stop = max(alive.start, needed.start), alive.stop
        self._alive[tensor][axis] = Interval(start, stop)
        if alive.start < start:
            yield Death(tensor, axis, alive.start, start)
        if stop < alive.stop:
            yield Death(tensor, axis, stop, alive.stop)
