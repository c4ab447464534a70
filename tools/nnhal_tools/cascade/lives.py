"""Where the elements of each tensor lie, and how long: the rows of a schedule's tensors in address and time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nnhal_devices.ethos_u.cascader.geometry.box import Axis
from nnhal_devices.ethos_u.cascader.schedule.schedule import Schedule, TensorBuffer
from nnhal_tools.cascade.replay import PlanReplay
from nnhal_tools.cascade.telling import tensor_names


class LiveBytes(NamedTuple):
    """Bytes that are alive for some time."""

    address: int
    bytes: int
    start: int
    """Cycles since the start of the schedule."""
    end: int


@dataclass(frozen=True, slots=True)
class TensorLife:
    """What is alive of a tensor in one buffer.

    Rows have addresses of their own. Stripes of columns or channels lie interleaved; they are told as if they lay one
    after the other in the buffer.
    """

    buffer: TensorBuffer
    name: str
    pieces: tuple[LiveBytes, ...]


def lives(schedule: Schedule, replays: Sequence[PlanReplay]) -> tuple[TensorLife, ...]:
    """Return the life of each tensor in each buffer of the working memory."""
    names = tensor_names(schedule.graph)
    return tuple(
        TensorLife(buffer, names[buffer.tensor], tuple(_Life(schedule, replays, buffer).pieces()))
        for buffer in schedule.tensors
        if buffer.region == schedule.system.working.name
    )


class _Element(NamedTuple):
    """What a buffer holds of one index along the axis."""

    start: int
    end: int
    slot: int


class _Life:
    """The elements of one buffer along one axis, in the order of the stripes."""

    def __init__(self, schedule: Schedule, replays: Sequence[PlanReplay], buffer: TensorBuffer) -> None:
        self._schedule, self._buffer = schedule, buffer
        self._replays = replays[buffer.first : buffer.last + 1]
        self._length = schedule.graph.tensors[buffer.tensor].shape
        self._axis = self._axis_of()
        self._born: dict[int, int] = {}
        """For each element along the axis that is alive, since when."""

    def pieces(self) -> Iterator[LiveBytes]:
        """Yield what lies together and lives equally long."""
        each = self._buffer.bytes // self._buffer.extents[self._axis]
        for group in _neighbours(sorted(self._elements())):
            first = group[0]
            yield LiveBytes(self._buffer.address + first.slot * each, len(group) * each, first.start, first.end)

    def _axis_of(self) -> Axis:
        deaths = (
            death.axis
            for each in self._replays
            for stripe in each.stripes
            for death in stripe.run.deaths
            if death.tensor == self._buffer.tensor
        )
        return next(deaths, Axis.ROWS)

    def _written(self) -> bool:
        """Whether a part writes the buffer; otherwise it is full from its beginning."""
        graph, plans = self._schedule.graph, self._schedule.proposal.plans[self._buffer.first : self._buffer.last + 1]
        return any(graph.parts[part].output == self._buffer.tensor for plan in plans for part in plan.parts)

    def _elements(self) -> Iterator[_Element]:
        slots = self._buffer.extents[self._axis]
        tensor = self._buffer.tensor
        if not self._written():
            self._born = dict.fromkeys(range(self._length[self._axis]), self._replays[0].start)
        for each in self._replays:
            for stripe in each.stripes:
                if self._schedule.graph.parts[stripe.run.part].output == tensor:
                    written = stripe.run.output[self._axis]
                    for element in range(written.start, written.stop):
                        self._born.setdefault(element, stripe.start)
                for death in stripe.run.deaths:
                    if death.tensor == tensor and death.axis == self._axis:
                        for element in range(death.from_, death.to):
                            if element in self._born:
                                yield _Element(self._born.pop(element), stripe.end, element % slots)
        end = self._replays[-1].end
        yield from (_Element(start, end, element % slots) for element, start in self._born.items())


def _neighbours(elements: Iterable[_Element]) -> Iterator[list[_Element]]:
    """Yield groups of sorted elements that have equal times and consecutive slots."""
    group: list[_Element] = []
    for element in elements:
        if group and element != group[-1]._replace(slot=group[-1].slot + 1):
            yield group
            group = []
        group.append(element)
    if group:
        yield group
