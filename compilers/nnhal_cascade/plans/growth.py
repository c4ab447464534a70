"""A group of consecutive parts that grows from its last part towards the inputs, and the memory that it needs.

The memory of a group is what lives across it, its inputs and outputs, where a dying input and the output share bytes,
and a rolling buffer for each tensor between its parts. All of it follows from the parts' dependencies in closed form.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from nnhal_cascade.geometry.accesses import AxisAccess
from nnhal_cascade.geometry.box import Axis, Interval, Shape, cut_evenly, hull
from nnhal_cascade.graph.feeds import hands_over
from nnhal_cascade.graph.running_sums import runs_on, sums_read
from nnhal_cascade.plans.demand import (
    Steps,
    greatest_lead,
    needed_start,
    needed_stop,
    rolling_extent,
    rounded_up,
)
from nnhal_cascade.plans.homes import Lifetimes, WorkingSet


class Group:
    """The last parts of a growth, whatever homes their tensors have."""

    __slots__ = ("_dying", "_growth", "_kept", "_rolled", "_shares", "first")

    def __init__(self, growth: Growth, first: int, rolled: int, kept: tuple[int, ...], dying: tuple[int, ...]) -> None:
        self.first = first
        self._growth, self._rolled, self._kept, self._dying = growth, rolled, kept, dying
        self._shares: tuple[tuple[int, int], ...] | None = None

    @property
    def interior(self) -> frozenset[int]:
        """Return the tensors between the parts."""
        growth = self._growth
        return frozenset(part.output for part in growth.graph.parts[self.first : growth.stop - 1])

    def memory(self, held: WorkingSet) -> int:
        """Return the bytes of the working memory for the group, without constants."""
        output = self._growth.output
        total = held.sizes[output] + held.alive[self.first] + self._rolled
        total += sum(held.sizes[each] for each in self._kept)
        if output in held.spilled:
            return total
        if self._shares is None:
            shares = ((each, self._growth.shared(each, self.first)) for each in self._dying)
            self._shares = tuple((each, size) for each, size in shares if size)
        return total - max((size for each, size in self._shares if each not in held.spilled), default=0)


class Growth:
    """One way to cut groups that end with the same part.

    ``extent`` is that of the last part's stripes along ``along``. With ``scaled`` the other parts' stripes are what one
    of those needs in addition; otherwise they have the same extent. ``band`` cuts the output into bands of as many
    rows, one after the other, each of them cut along ``along``; parts before the last compute the rows that bands share
    once for each of them.
    """

    def __init__(
        self, lifetimes: Lifetimes, stop: int, along: Axis, extent: int, scaled: bool = False, band: int = 0
    ) -> None:
        self.along, self.stop, self.band = along, stop, band
        self.stripes: dict[int, int] = {}
        """The extent of each part's stripes, from the last part to the first."""
        self.bands: dict[int, tuple[Interval, ...]] = {}
        """For each part the rows of its output that each band needs; empty if there are no bands."""
        self.graph, self._last = lifetimes.graph, lifetimes.last
        self.output = self.graph.parts[stop - 1].output
        self._scaled, self._extent = scaled, extent
        length = self._length(self.output)
        self._starts: Steps = np.arange(0, length, extent)
        self._done: dict[int, Steps] = {stop - 1: np.minimum(self._starts + extent, length)}
        self._sums = sums_read(self.graph, stop - 1) if along == Axis.ROWS else None
        if self._sums is not None:
            # The last part runs once. Steps are those of the part before, which adds up row by row.
            self._starts = np.zeros(self._length(self._sums), np.int64)
            self._done[stop - 1] = np.append(self._starts[1:], length)
        self._dying: set[int] = set()
        self._rolled, self._kept = 0, tuple[int, ...]()
        self._groups: list[Group] = []
        self._has_ended = False
        if band:
            self.bands[stop - 1] = tuple(cut_evenly(Interval(0, self.graph.tensors[self.output].shape.rows), band))

    def group(self, parts: int) -> Group | None:
        """Return the group of the last ``parts`` parts, None if it can be no cascade."""
        while len(self._groups) < parts <= self.stop and not self._has_ended:
            part = self.stop - 1 - len(self.stripes)
            self._has_ended = not self._take(part)
            if not self._has_ended:
                self._groups.append(Group(self, part, self._rolled, self._kept, tuple(self._dying)))
        return self._groups[parts - 1] if parts <= len(self._groups) else None

    def _take(self, part: int) -> bool:
        """Take in the part before the groups. Returns False if no group with it can be a cascade."""
        if not self.band and not hands_over(self.graph, part, self.along):
            return False
        if part == self.stop - 1:
            self.stripes[part] = self._extent
            self._account(part)
            return True
        tensor = self.graph.parts[part].output
        readers = self._readers(tensor, part + 1)
        length = self._length(tensor)
        extents = [self._asked(access, self.stripes[reader]) for reader, access in readers]
        if not readers or (self.along != Axis.ROWS and not all(extents)):
            return False
        extent = min(length, max(extents) or length) if self._scaled else min(self._extent, length)
        escapes = self._last[tensor] >= self.stop
        if self.band and escapes:
            return False
        self.stripes[part] = extent
        demanded = [needed_stop(access, self._reach(reader))[self._done[reader]] for reader, access in readers]
        self._done[part] = rounded_up(_most(demanded), extent, length)
        if tensor == self._sums:
            self._done[part] = np.arange(1, len(self._starts) + 1)
        if self.band:
            self.bands[part] = self._needed_rows(tensor, part)
        if escapes:
            self._kept = *self._kept, tensor
        else:
            self._rolled += self._rolling(part, readers, length, extent)
        self._account(part)
        return True

    def _account(self, part: int) -> None:
        """Keep account of the tensors that the group reads last."""
        node = self.graph.parts[part]
        self._dying.discard(node.output)
        read = (each.tensor for each in node.inputs if each.tensor != node.output)
        self._dying.update(each for each in read if self._last[each] < self.stop)

    def begun(self, part: int) -> float:
        """Return the share of a part that has run when the last part first runs."""
        return float(self._done[part][0]) / self._reach(part) if part < self.stop - 1 else 0.0

    def shared(self, dying: int, first: int) -> int:
        """Return the bytes that the output of the group from ``first`` on may have in common with a dying input."""
        if self.band:
            freed = np.array([rows.start for rows in self._needed_rows(dying, first)])
            written = np.array([rows.stop for rows in self.bands[self.stop - 1]])
            return self._saved(dying, written, freed)
        if self.along != Axis.ROWS:
            return 0
        freed = _least(
            [
                needed_start(access, self._reach(reader), self._length(dying))[
                    self._starts if reader == self.stop - 1 else self._done[reader]
                ]
                for reader, access in self._readers(dying, first)
            ]
        )
        return self._saved(dying, self._done[self.stop - 1], freed)

    def _saved(self, dying: int, written: Steps, freed: Steps) -> int:
        """The bytes that are shared if the output has ``written`` rows while ``freed`` rows of an input are dead."""
        lead = greatest_lead(written * self._row(self.output), freed * self._row(dying))
        before, after = self.graph.tensors[dying].bytes, self.graph.tensors[self.output].bytes
        return before + after - max(after, min(lead, after) + before)

    def _rolling(self, part: int, readers: list[tuple[int, AxisAccess]], length: int, extent: int) -> int:
        """The bytes of the rolling buffer between a part and its readers."""
        shape = self.graph.tensors[self.graph.parts[part].output]
        if len(readers) == 1:
            reader, access = readers[0]
            rows = rolling_extent(access, self._reach(reader), length, self.stripes[reader], extent)
            rows += runs_on(self.graph, part)
        else:
            first = _least(
                [
                    needed_start(access, self._reach(reader), length)[np.append(0, self._done[reader][:-1])]
                    for reader, access in readers
                ]
            )
            rows = max(1, int((self._done[part] - first).max()))
        size = shape.bytes // length * rows
        if self.band:
            size = size // shape.shape.rows * max(1, max(each.length for each in self.bands[part]))
        return size

    def _needed_rows(self, tensor: int, first: int) -> tuple[Interval, ...]:
        """The rows of a tensor that the parts from ``first`` on need for each band."""
        accesses = [
            (self.bands[reader], each.rows)
            for reader in self.graph.consumers[tensor]
            if first <= reader < self.stop
            for each in self.graph.parts[reader].inputs
            if each.tensor == tensor
        ]
        needed = [[access.needs(rows) for rows in bands] for bands, access in accesses]
        return tuple(hull(band) for band in zip(*needed, strict=True))

    def _asked(self, access: AxisAccess, extent: int) -> int:
        """Return how many more elements of an input a stripe needs than the one before; 0 if it needs all of it."""
        row = access.affine()
        return ceil(extent * row.coefficient) if row.coefficient else int(row.constant == 1)

    def _readers(self, tensor: int, first: int) -> list[tuple[int, AxisAccess]]:
        """The parts from ``first`` on that read a tensor, each with its dependency along the axis."""
        return [
            (reader, each.along(self.along))
            for reader in self.graph.consumers[tensor]
            if first <= reader < self.stop
            for each in self.graph.parts[reader].inputs
            if each.tensor == tensor
        ]

    def _reach(self, part: int) -> int:
        return self._length(self.graph.parts[part].output)

    def _length(self, tensor: int) -> int:
        return self.graph.tensors[tensor].shape[self.along]

    def _row(self, tensor: int) -> int:
        found: Shape = self.graph.tensors[tensor].shape
        return found.columns * found.channels * self.graph.tensors[tensor].element_bytes


def _least(steps: list[Steps]) -> Steps:
    """The least of several for each stripe."""
    found: Steps = steps[0] if len(steps) == 1 else np.minimum.reduce(steps)
    return found


def _most(steps: list[Steps]) -> Steps:
    """The greatest of several for each stripe."""
    found: Steps = steps[0] if len(steps) == 1 else np.maximum.reduce(steps)
    return found
