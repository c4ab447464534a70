"""Places and lives of the elements of each tensor: the rows of a schedule's tensors in address and time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nnhal_cascade.geometry.box import Axis
from nnhal_cascade.graph.cascader_graph import tensor_names
from nnhal_cascade.schedule.replay import PlanReplay
from nnhal_cascade.schedule.schedule import Schedule, TensorBuffer
from nnhal_cascade.schedule.walk import Death, StripeRun


class LiveBytes(NamedTuple):
    """Bytes that are alive for some time."""

    address: int
    bytes: int
    start: int
    """Cycles since the start of the schedule."""
    end: int


@dataclass(frozen=True, slots=True)
class TensorLife:
    """Elements of a tensor that are alive in one buffer.

    Rows have addresses of their own. Stripes of columns or channels lie interleaved; they are told as if they lay one
    after the other in the buffer.
    """

    buffer: TensorBuffer
    name: str
    pieces: tuple[LiveBytes, ...]


class MemoryUse(NamedTuple):
    """Bytes of the working memory that something has for some time."""

    name: str
    """The tensor, or whose weights they are."""
    address: int
    bytes: int
    begin: int
    """Cycles since the start of the schedule."""
    end: int
    kind: str
    """``reserved`` for a tensor, or what lies there: ``feature map``, ``rolling buffer`` or ``weights``."""


def memory_uses(schedule: Schedule, replays: Sequence[PlanReplay]) -> Iterator[MemoryUse]:
    """Yield what lies in the working memory: of each tensor what is reserved and what is alive, and weights."""
    for life in lives(schedule, replays):
        buffer = life.buffer
        begin, end = replays[buffer.first].start, replays[buffer.last].end
        yield MemoryUse(life.name, buffer.address, buffer.bytes, begin, end, "reserved")
        is_whole = buffer.extents == schedule.graph.tensors[buffer.tensor].shape
        kind = "feature map" if is_whole else "rolling buffer"
        yield from (MemoryUse(life.name, *piece, kind) for piece in life.pieces)
    for constants in schedule.constants:
        if constants.region != schedule.system.working.name:
            continue
        begin, end = replays[constants.copied_in].start, replays[constants.plan].end
        name, size = schedule.graph.parts[constants.part].name, constants.bytes * constants.slots
        yield MemoryUse(f"weights of {name}", constants.address, size, begin, end, "weights")


def lives(schedule: Schedule, replays: Sequence[PlanReplay]) -> tuple[TensorLife, ...]:
    """Return the life of each tensor in each buffer of the working memory."""
    names = tensor_names(schedule.graph)
    return tuple(
        TensorLife(buffer, names[buffer.tensor], tuple(_Life(schedule, replays, buffer).pieces()))
        for buffer in schedule.tensors
        if buffer.region == schedule.system.working.name
    )


class _Element(NamedTuple):
    """Elements that a buffer holds of one index along the axis."""

    start: int
    end: int
    slot: int


class _Life:
    """Elements that are alive in one buffer, from the plan that fills it to the one that reads it last."""

    def __init__(self, schedule: Schedule, replays: Sequence[PlanReplay], buffer: TensorBuffer) -> None:
        self._graph, self._buffer = schedule.graph, buffer
        self._shape = schedule.graph.tensors[buffer.tensor].shape
        self._plans = replays[buffer.first : buffer.last + 1]
        plan = schedule.proposal.plans[buffer.first]
        self._written_along = plan.along if len(plan.tiles) == 1 else Axis.ROWS
        self._is_written = any(schedule.graph.parts[part].output == buffer.tensor for part in plan.parts)

    def pieces(self) -> Iterator[LiveBytes]:
        """Yield what lies together and lives equally long.

        If the buffer is written along one axis and dies along another, it is cut at the start of its last plan.
        """
        dies_along = self._dies_along()
        if not self._is_written:
            yield from self._joined(dies_along, self._alive(self._plans, dies_along, full=True))
        elif dies_along == self._written_along or len(self._plans) == 1:
            yield from self._joined(dies_along, self._alive(self._plans, dies_along))
        else:
            yield from self._joined(self._written_along, self._alive(self._plans[:-1], self._written_along))
            yield from self._joined(dies_along, self._alive(self._plans[-1:], dies_along, full=True))

    def _dies_along(self) -> Axis:
        deaths = (death for plan in self._plans for stripe in plan.stripes for death in self._deaths(stripe.run))
        return next((death.axis for death in deaths), self._written_along)

    def _deaths(self, run: StripeRun) -> Iterator[Death]:
        return (death for death in run.deaths if death.tensor == self._buffer.tensor)

    def _alive(self, plans: Sequence[PlanReplay], axis: Axis, full: bool = False) -> Iterator[tuple[int, int, int]]:
        """Yield start, end and index of what is alive during some plans; all of it from the start if it is full."""
        born = dict.fromkeys(range(self._shape[axis]), plans[0].start) if full else {}
        for stripe in (stripe for plan in plans for stripe in plan.stripes):
            if self._graph.parts[stripe.run.part].output == self._buffer.tensor:
                for at in range(*stripe.run.output[axis]):
                    born.setdefault(at, stripe.start)
            for death in self._deaths(stripe.run):
                for at in range(death.from_, death.to):
                    if at in born:
                        yield born.pop(at), stripe.end, at
        yield from ((start, plans[-1].end, at) for at, start in born.items())

    def _joined(self, axis: Axis, elements: Iterable[tuple[int, int, int]]) -> Iterator[LiveBytes]:
        """Join neighbours that live equally long. Elements are start, end and index."""
        slots = self._buffer.extents[axis]
        each = self._buffer.bytes // slots
        in_slots = sorted(_Element(start, end, at % slots) for start, end, at in elements)
        for group in _neighbours(in_slots):
            first = group[0]
            yield LiveBytes(self._buffer.address + first.slot * each, len(group) * each, first.start, first.end)


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
