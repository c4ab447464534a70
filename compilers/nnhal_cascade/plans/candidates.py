"""The plans that are tried for each group of consecutive parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

from nnhal_cascade.geometry.box import Axis, cut_evenly, whole
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.graph.running_sums import sums_read
from nnhal_cascade.hardware.memory import Content
from nnhal_cascade.plans.demand import halvings
from nnhal_cascade.plans.growth import Group, Growth
from nnhal_cascade.plans.homes import Homes, WorkingSet
from nnhal_cascade.plans.part_costs import Cut, PartCosts, copied_to
from nnhal_cascade.plans.plan import Plan, WeightsIn

_DEPTH = 16
"""Stripes of channels are multiples of this, as the NPU's blocks are."""

_BOUNDLESS = 1 << 62
"""More bytes than there are."""


_NOWHERE = frozenset[int]()


class PlanCandidate(NamedTuple):
    """A plan that is tried: its group, its price, and how it is cut."""

    first: int
    stop: int
    memory: int
    busy: int
    """Cycles if it never waits for constants."""
    waits: int
    """An estimate of the cycles for which it waits for constants, if none is copied before it starts."""
    along: Axis
    band: int
    """Rows of its tiles, 0 for one tile."""
    stripes: tuple[int, ...]
    copied: frozenset[int]
    """Parts whose constants are copied to the working memory."""
    copied_bytes: int = 0
    """The bytes that it takes for them."""
    moved: int = 0
    """The cycles in which they are copied while it runs: only beside the others can those of the next plan be."""

    def plan(self, graph: CascaderGraph) -> Plan:
        parts = tuple(range(self.first, self.stop))
        copied = copied_to(self.along)
        weights = tuple(
            WeightsIn.NONE
            if graph.parts[part].constants is None
            else (copied if part in self.copied else WeightsIn.STREAMED)
            for part in parts
        )
        output = whole(graph.tensors[graph.parts[parts[-1]].output].shape)
        tiles = tuple(output.along(Axis.ROWS, rows) for rows in cut_evenly(output.rows, self.band or output.rows.stop))
        return Plan(parts, self.stripes, weights, tiles, self.along, self.memory, self.cycles, self.busy)

    @property
    def recomputes(self) -> bool:
        """Return whether it computes values twice."""
        return self.band > 0 and self.stop > self.first + 1

    @property
    def cycles(self) -> int:
        """An estimate of its cycles."""
        return self.busy + self.waits


class Tried(NamedTuple):
    parts: int
    """The most parts of a group; 1 means no cascades."""
    recompute: bool = False
    """True if there are plans that compute values twice, too."""
    factors: int | None = None
    """How many extents of stripes along an axis at most; None for all."""
    always_copied: int = 0
    """A part's constants of at most so many bytes are never streamed."""


class PlanSpace:
    """The plans of a graph whose tensors have their homes.

    Plans of more than ``limit`` bytes are left out, and those behind which none of the others leads. So are those with
    which a network takes ``rival`` cycles or more, even if the parts before are in the fastest plans and the parts
    behind take the least that is known. They do not cost the time to price them.
    """

    def __init__(
        self,
        homes: Homes,
        costs: PartCosts,
        tried: Tried,
        limit: int | None = None,
        rival: int | None = None,
    ) -> None:
        self._limit = _BOUNDLESS if limit is None else limit
        self._homes, self._graph, self._costs, self._tried = homes, homes.graph, costs, tried
        self._held = WorkingSet(homes)
        self._may_copy = Content.CONSTANTS in homes.system.working.holds
        self._fastest: list[int] = []
        self._scaling = {
            along: [
                any(each.along(along).affine().coefficient != 1 for each in part.inputs) for part in self._graph.parts
            ]
            for along in Axis
        }
        self._floors = [] if rival is None else [costs.floor(part.index, homes) for part in self._graph.parts]
        self.slack = _BOUNDLESS if rival is None else rival - sum(self._floors)
        """Fewer cycles than these its parts may take in a plan beyond the least that is known."""
        self._left = [self.slack]
        """The part of the slack that the fastest plans to each part, and to the end, leave; 0 or less if none does."""

    def all(self) -> list[list[PlanCandidate]]:
        """Return for each part the plans that end with it: of each group those that are Pareto efficient."""
        return [self._ending_at(stop) for stop in range(1, len(self._graph.parts) + 1)]

    def _ending_at(self, stop: int) -> list[PlanCandidate]:
        if all(left <= 0 for left in self._left[-self._tried.parts :]):
            self._left.append(0)
            return []
        shape = self._graph.tensors[self._graph.parts[stop - 1].output].shape
        cut = partial(halvings, factors=self._tried.factors)
        depths = sorted({-(-each // _DEPTH) * _DEPTH for each in cut(shape.channels)[1:]} - {shape.channels})
        uncut = list(self._alone(stop, Axis.ROWS, shape.rows))
        for depth in depths:
            uncut += self._alone(stop, Axis.CHANNELS, depth)
        self._fastest.append(min(uncut, key=lambda each: (each.busy, each.memory)).memory)
        found = [each for each in uncut if each.memory <= self._limit]
        if self._may_copy and self._reduces(stop - 1):
            for band in _bands(shape.rows) if self._tried.factors is None else cut(shape.rows)[1:]:
                found += self._banded(stop, depths, band)
        for along in (Axis.ROWS, Axis.COLUMNS, Axis.CHANNELS):
            if along == Axis.COLUMNS and shape.columns <= shape.rows:
                continue
            extents = cut(shape[along])[1:]
            if along == Axis.ROWS and sums_read(self._graph, stop - 1) is not None:
                extents = (1,)  # of the parts before, which go row by row
            for extent in extents:
                if along == Axis.CHANNELS and extent % _DEPTH:
                    continue
                for scaled in (True, False) if self._scales(stop, along) else (False,):
                    found += self._grown(stop, along, extent, scaled)
        if self._tried.recompute:
            columns = cut(shape.columns)
            for band, extent in product(cut(shape.rows)[1:], dict.fromkeys((columns[0], *columns[2:4], *columns[-3:]))):
                for scaled in (True, False) if self._scales(stop, Axis.COLUMNS) else (False,):
                    found += self._grown(stop, Axis.COLUMNS, extent, scaled, band)
        left = [self._left[each.first] - each.busy + sum(self._floors[each.first : stop]) for each in found]
        self._left.append(max(left, default=0))
        return _efficient([each for each, more in zip(found, left, strict=True) if more > 0])

    def _scales(self, stop: int, along: Axis) -> bool:
        """Return whether some part of the groups needs more or fewer elements than it computes."""
        return any(self._scaling[along][max(0, stop - self._tried.parts) : stop])

    def _reduces(self, part: int) -> bool:
        """Return whether each channel of a part's output needs all of its input's, and constants of its own."""
        node = self._graph.parts[part]
        return node.constants is not None and not any(each.channels.affine().coefficient for each in node.inputs)

    def _alone(self, stop: int, along: Axis, extent: int) -> Iterator[PlanCandidate]:
        """The plans of the last part alone, in one tile."""
        growth = self._growth(stop, along, extent)
        group = growth.group(1)
        if group is not None:
            yield from self._weighed(growth, group, _BOUNDLESS)

    def _banded(self, stop: int, depths: Sequence[int], band: int) -> Iterator[PlanCandidate]:
        """The last part alone, in bands of rows, each of them in stripes of channels with double-buffered constants."""
        part, along, doubled = stop - 1, Axis.CHANNELS, WeightsIn.DOUBLE_BUFFERED
        growth = self._growth(stop, along, max(depths, default=1), band=band)
        group = growth.group(1)
        assert group is not None, "bands of one part"
        places, bands = self._homes.places(part, doubled), growth.bands[part]
        activations, limit = group.memory(self._held), self._useful(self._fastest[part])
        for depth in depths:
            memory = activations + self._homes.constants_bytes(part, along, depth)
            if memory < limit:
                busy = self._costs.cycles(part, along, depth, doubled, places, bands)
                waits = self._costs.first_copy(part, along, depth)
                size, copied = memory - activations, frozenset({part})
                yield PlanCandidate(part, stop, memory, busy, waits, along, band, (depth,), copied, size)

    def _grown(self, stop: int, along: Axis, extent: int, scaled: bool, band: int = 0) -> Iterator[PlanCandidate]:
        """The plans of all groups that end with a part, for one choice of stripes.

        A cascade is of no use if each of its parts runs at its fastest, uncut, in the same memory.
        """
        growth = self._growth(stop, along, extent, scaled, band)
        limit, differs, slack = 0, not scaled, self.slack
        for parts in range(1, min(stop, self._tried.parts) + 1):
            group = growth.group(parts)
            if group is None:
                return
            first = group.first
            if self._floors:
                slack -= self._excess((first, along, growth.stripes[first], growth.bands.get(first, ()), _NOWHERE))
                if slack <= 0:
                    return
            differs = differs or growth.stripes[first] != extent
            limit = max(limit, self._fastest[first])
            if differs and self._left[first] + slack > self.slack:
                yield from self._weighed(growth, group, self._useful(limit))

    def _growth(self, stop: int, along: Axis, extent: int, scaled: bool = False, band: int = 0) -> Growth:
        """The groups that end with a part, for one choice of stripes: the same for all homes of the tensors."""
        key = stop, along, extent, scaled, band
        found = self._costs.growths.get(key)
        if found is None:
            found = self._costs.growths[key] = Growth(self._held.lifetimes, *key)
        return found

    def _useful(self, uncut: int) -> int:
        """The bytes from which on a plan is of no use if its parts run at their fastest in ``uncut`` bytes.

        If tensors are spilled, it may be of use all the same, since it spares them the way to the spill region.
        """
        return self._limit + 1 if self._homes.spilled else min(uncut, self._limit + 1)

    def _weighed(self, growth: Growth, group: Group, limit: int) -> Iterator[PlanCandidate]:
        """One cut, with the constants of no part copied, of the part where that saves most for its bytes, and so on.

        What takes ``limit`` bytes or more is left out.
        """
        memory = uncopied = group.memory(self._held)
        if memory >= limit:
            return
        first, along, interior, band = group.first, growth.along, group.interior, growth.band
        stripes = {part: growth.stripes[part] for part in range(first, growth.stop)}
        times: dict[int, int] = {}
        gains: list[tuple[float, int, int, int, int]] = []
        spare = self._left[first] + sum(self._floors[first : growth.stop])
        for part, extent in stripes.items():
            cut = part, along, extent, growth.bands.get(part, ()), self._homes.away(part, interior)
            times[part], size = self._costs.streamed(cut)
            is_always = 0 < size <= self._tried.always_copied
            if self._may_copy and size and (memory + size < limit or is_always):
                copied, ready = self._costs.copied(cut)
                if copied < times[part] or is_always:
                    spare += times[part] - min(times[part], ready)
                    # The stripes of other parts, between this one's, may leave the copies all the time they take.
                    order = 0.0 if is_always else size / (times[part] - copied)
                    gains.append((order, part, size, copied, copied - ready if len(stripes) > 1 else 0))
        extents, chosen = tuple(stripes.values()), frozenset[int]()
        busy, hidden, moved = sum(times.values()), 0, 0
        # Even without waits it is in nothing that is faster than the rival. What runs alone is a measure of others.
        if busy >= spare and limit < _BOUNDLESS:
            return
        gains.sort()
        if not gains or gains[0][0]:
            yield PlanCandidate(first, growth.stop, memory, busy, 0, along, band, extents, chosen)
        for number, (_, part, size, copied, waited) in enumerate(gains, 1):
            memory, chosen = memory + size, chosen | {part}
            if memory >= limit:
                return
            busy, hidden, times[part] = busy - times[part] + copied, hidden + waited, copied
            # The DMA engine copies for one part after the other, all but the first stripes' while the plan runs.
            moved += self._costs.later_copies(part, along, stripes[part])
            ready = min(busy, max(busy - hidden, moved))
            if number < len(gains) and not gains[number][0]:
                continue
            waits, room = self._waits(growth, stripes, times, chosen) + busy - ready, memory - uncopied
            yield PlanCandidate(first, growth.stop, memory, ready, waits, along, band, extents, chosen, room, moved)

    def _excess(self, cut: Cut) -> int:
        """The cycles that a part takes beyond its least for being cut, with its constants where that is best."""
        cycles, size = self._costs.streamed(cut)
        if size and self._may_copy:
            cycles = min(cycles, self._costs.copied(cut)[1])
        return cycles - self._floors[cut[0]]

    def _waits(
        self, growth: Growth, stripes: Mapping[int, int], times: Mapping[int, int], copied: frozenset[int]
    ) -> int:
        """An estimate of the cycles for which a plan waits for constants that are copied as it starts."""
        waited = issued = begun = 0
        for part, extent in stripes.items():
            if part in copied:
                issued += self._costs.first_copy(part, growth.along, extent)
                waited = max(waited, issued - begun)
            begun += int(times[part] * growth.begun(part))
        return waited


def _bands(rows: int) -> list[int]:
    """The heights of bands that are tried: for 2 to 8 bands, and for as many as halving leads to."""
    return sorted({-(-rows // count) for count in range(2, 9)} | set(halvings(rows)[1:]))


def _efficient(candidates: list[PlanCandidate]) -> list[PlanCandidate]:
    """The candidates that no other one of their group beats in memory and in cycles, with and without waits."""
    found: list[PlanCandidate] = []
    best: dict[int, tuple[int, int]] = {}
    for each in sorted(candidates, key=lambda each: (each.memory, each.cycles, each.busy, each.first)):
        cycles, busy = best.get(each.first, (_BOUNDLESS, _BOUNDLESS))
        if each.cycles < cycles or each.busy < busy:
            best[each.first] = min(each.cycles, cycles), min(each.busy, busy)
            found.append(each)
    return found
