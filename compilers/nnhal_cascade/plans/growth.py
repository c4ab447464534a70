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
from nnhal_cascade.plans.demand import (
    Steps,
    greatest_lead,
    needed_start,
    needed_stop,
    rolling_extent,
    rounded_up,
)
from nnhal_cascade.plans.homes import WorkingSet


class Growth:
    """One way to cut groups that end with the same part.

    ``extent`` is that of the last part's stripes along ``along``. With ``scaled`` the other parts' stripes are what one
    of those needs in addition; otherwise they have the same extent. ``band`` cuts the output into bands of as many
    rows, one after the other, each of them cut along ``along``; parts before the last compute the rows that bands share
    once for each of them.
    """

    def __init__(
        self, held: WorkingSet, stop: int, along: Axis, extent: int, scaled: bool = False, band: int = 0
    ) -> None:
        self.along, self.stop, self.band = along, stop, band
        self.stripes: dict[int, int] = {}
        """The extent of each part's stripes, from the last part to the first."""
        self.interior: frozenset[int] = frozenset()
        """The tensors between the parts."""
        self.bands: dict[int, tuple[Interval, ...]] = {}
        """For each part the rows of its output that each band needs; empty if there are no bands."""
        self._held, self._graph, self._last = held, held.graph, held.lifetimes.last
        self._scaled, self._extent = scaled, extent
        self._output = self._graph.parts[stop - 1].output
        length = self._length(self._output)
        self._starts: Steps = np.arange(0, length, extent)
        self._done: dict[int, Steps] = {stop - 1: np.minimum(self._starts + extent, length)}
        self._dying: set[int] = set()
        self._buffers = 0
        if band:
            self.bands[stop - 1] = tuple(cut_evenly(Interval(0, self._graph.tensors[self._output].shape.rows), band))

    def grow(self) -> bool:
        """Take in the part before the group. Returns False if no group with it can be a cascade."""
        part = self.stop - 1 - len(self.stripes)
        if not self.band and not hands_over(self._graph, part, self.along):
            return False
        if part == self.stop - 1:
            self.stripes[part] = self._extent
            self._take(part)
            return True
        tensor = self._graph.parts[part].output
        readers = self._readers(tensor)
        length = self._length(tensor)
        extents = [self._asked(access, self.stripes[reader]) for reader, access in readers]
        if not readers or (self.along != Axis.ROWS and not all(extents)):
            return False
        extent = min(length, max(extents) or length) if self._scaled else min(self._extent, length)
        self.stripes[part] = extent
        demanded = [needed_stop(access, self._reach(reader))[self._done[reader]] for reader, access in readers]
        self._done[part] = rounded_up(_most(demanded), extent, length)
        if self.band:
            if self._last[tensor] >= self.stop:
                return False
            self.bands[part] = self._needed_rows(tensor)
        self.interior |= {tensor}
        if self._last[tensor] >= self.stop:
            self._buffers += self._held.sizes[tensor]
        else:
            self._buffers += self._rolling(part, readers, length, extent)
        self._take(part)
        return True

    def _take(self, part: int) -> None:
        """Keep account of the tensors that the group reads last."""
        node = self._graph.parts[part]
        self._dying.discard(node.output)
        self._dying.update(each.tensor for each in node.inputs if self._last[each.tensor] < self.stop)

    def begun(self, part: int) -> float:
        """Return the share of a part that has run when the last part first runs."""
        return float(self._done[part][0]) / self._reach(part) if part < self.stop - 1 else 0.0

    @property
    def memory(self) -> int:
        """Bytes of the working memory for the group, without constants."""
        first = self.stop - len(self.stripes)
        total = self._held.sizes[self._output] + self._held.alive[first] + self._buffers
        return total - max((self._shared(each, self._output) for each in self._dying), default=0)

    def _shared(self, dying: int, output: int) -> int:
        """The bytes that an output need not have, since it is written over a dying input."""
        if {dying, output} & self._held.spilled:
            return 0
        if self.band:
            freed = np.array([rows.start for rows in self._needed_rows(dying)])
            written = np.array([rows.stop for rows in self.bands[self.stop - 1]])
            return self._saved(dying, output, written, freed)
        if self.along != Axis.ROWS:
            return 0
        freed = _least(
            [
                needed_start(access, self._reach(reader), self._length(dying))[
                    self._starts if reader == self.stop - 1 else self._done[reader]
                ]
                for reader, access in self._readers(dying)
            ]
        )
        return self._saved(dying, output, self._done[self.stop - 1], freed)

    def _saved(self, dying: int, output: int, written: Steps, freed: Steps) -> int:
        """The bytes that are shared if an output has ``written`` rows while ``freed`` rows of an input are dead."""
        lead = greatest_lead(written * self._row(output), freed * self._row(dying))
        before, after = self._held.sizes[dying], self._held.sizes[output]
        return before + after - max(after, min(lead, after) + before)

    def _rolling(self, part: int, readers: list[tuple[int, AxisAccess]], length: int, extent: int) -> int:
        """The bytes of the rolling buffer between a part and its readers."""
        shape = self._graph.tensors[self._graph.parts[part].output]
        if len(readers) == 1:
            reader, access = readers[0]
            rows = rolling_extent(access, self._reach(reader), length, self.stripes[reader], extent)
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

    def _needed_rows(self, tensor: int) -> tuple[Interval, ...]:
        """The rows of a tensor that the parts of the group need for each band."""
        accesses = [
            (self.bands[reader], each.rows)
            for reader in self._graph.consumers[tensor]
            if reader in self.stripes
            for each in self._graph.parts[reader].inputs
            if each.tensor == tensor
        ]
        needed = [[access.needs(rows) for rows in bands] for bands, access in accesses]
        return tuple(hull(band) for band in zip(*needed, strict=True))

    def _asked(self, access: AxisAccess, extent: int) -> int:
        """Return how many more elements of an input a stripe needs than the one before; 0 if it needs all of it."""
        row = access.affine()
        return ceil(extent * row.coefficient) if row.coefficient else int(row.constant == 1)

    def _readers(self, tensor: int) -> list[tuple[int, AxisAccess]]:
        """The parts of the group that read a tensor, each with its dependency along the axis."""
        return [
            (reader, each.along(self.along))
            for reader in self._graph.consumers[tensor]
            if reader in self.stripes
            for each in self._graph.parts[reader].inputs
            if each.tensor == tensor
        ]

    def _reach(self, part: int) -> int:
        return self._length(self._graph.parts[part].output)

    def _length(self, tensor: int) -> int:
        return self._graph.tensors[tensor].shape[self.along]

    def _row(self, tensor: int) -> int:
        found: Shape = self._graph.tensors[tensor].shape
        return found.columns * found.channels * self._graph.tensors[tensor].element_bytes


def _least(steps: list[Steps]) -> Steps:
    """The least of several for each stripe."""
    found: Steps = steps[0] if len(steps) == 1 else np.minimum.reduce(steps)
    return found


def _most(steps: list[Steps]) -> Steps:
    """The greatest of several for each stripe."""
    found: Steps = steps[0] if len(steps) == 1 else np.maximum.reduce(steps)
    return found
