"""The plans that are tried for each group of consecutive parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from nnhal_devices.ethos_u.cascader.geometry.box import Axis, whole
from nnhal_devices.ethos_u.cascader.graph.cascader_graph import CascaderGraph
from nnhal_devices.ethos_u.cascader.plans.demand import halvings
from nnhal_devices.ethos_u.cascader.plans.growth import Growth
from nnhal_devices.ethos_u.cascader.plans.lifetimes import Lifetimes
from nnhal_devices.ethos_u.cascader.plans.part_costs import Homes, PartCosts
from nnhal_devices.ethos_u.cascader.plans.plan import Plan, WeightsIn

_DEPTH = 16
"""Stripes of channels are multiples of this, as the NPU's blocks are."""


class Candidate(NamedTuple):
    """A plan that is tried: its group, its price, and how it is cut."""

    first: int
    stop: int
    memory: int
    cycles: int
    along: Axis
    stripes: tuple[int, ...]
    copied: frozenset[int]
    """Parts whose constants are copied to the working memory."""

    def plan(self, graph: CascaderGraph) -> Plan:
        """Return it as a plan."""
        parts = tuple(range(self.first, self.stop))
        copied = WeightsIn.DOUBLE_BUFFERED if self.along == Axis.CHANNELS else WeightsIn.RESIDENT
        weights = tuple(
            WeightsIn.NONE
            if graph.parts[part].constants is None
            else (copied if part in self.copied else WeightsIn.STREAMED)
            for part in parts
        )
        output = whole(graph.tensors[graph.parts[parts[-1]].output].shape)
        return Plan(parts, self.stripes, weights, (output,), self.along, self.memory, self.cycles)


class PlanSpace:
    """The plans of a graph whose tensors have their homes. A group has at most ``max_parts``; 1 means no cascades."""

    def __init__(self, homes: Homes, costs: PartCosts, max_parts: int) -> None:
        self._homes, self._graph, self._costs, self._max_parts = homes, homes.graph, costs, max_parts
        self._lifetimes = Lifetimes(homes.graph)
        self._fastest: list[int] = []

    def all(self) -> list[list[Candidate]]:
        """Return for each part the plans that end with it: of each group those that are Pareto efficient."""
        return [self._ending_at(stop) for stop in range(1, len(self._graph.parts) + 1)]

    def _ending_at(self, stop: int) -> list[Candidate]:
        shape = self._graph.tensors[self._graph.parts[stop - 1].output].shape
        uncut = list(self._grown(stop, Axis.ROWS, shape.rows, False, 1, None))
        for extent in {-(-each // _DEPTH) * _DEPTH for each in halvings(shape.channels)[1:]}:
            uncut += self._grown(stop, Axis.CHANNELS, extent, True, 1, None)
        self._fastest.append(min(uncut, key=lambda each: (each.cycles, each.memory)).memory)
        found = uncut
        for along in (Axis.ROWS, Axis.COLUMNS, Axis.CHANNELS):
            if along == Axis.COLUMNS and shape.columns <= shape.rows:
                continue
            for extent in halvings(shape[along])[1:]:
                if along == Axis.CHANNELS and extent % _DEPTH:
                    continue
                for scaled in (True, False):
                    found += self._grown(stop, along, extent, scaled, self._max_parts, self._fastest)
        return _efficient(found)

    def _grown(
        self, stop: int, along: Axis, extent: int, scaled: bool, most: int, fastest: list[int] | None
    ) -> Iterator[Candidate]:
        growth = Growth(self._graph, self._lifetimes, self._homes.spilled, stop, along, extent, scaled)
        limit = 0
        same = True
        for first in range(stop - 1, max(-1, stop - 1 - most), -1):
            if not growth.grow():
                return
            same = same and growth.stripes[first] == extent
            if scaled and same and fastest is not None and first < stop - 1:
                continue
            limit = 0 if fastest is None else max(limit, fastest[first])
            memory = growth.memory
            if fastest is None or self._homes.spilled or memory < limit:
                yield from self._weighed(growth, memory)

    def _weighed(self, growth: Growth, memory: int) -> Iterator[Candidate]:
        """One cut, with the constants of no part copied, of the part where that saves most for its bytes, and so on."""
        stripes = dict(reversed(growth.stripes.items()))
        first, along, interior = min(stripes), growth.along, growth.interior
        cycles, gains = 0, []
        copied = WeightsIn.DOUBLE_BUFFERED if along == Axis.CHANNELS else WeightsIn.RESIDENT
        for part, extent in stripes.items():
            constants = self._graph.parts[part].constants
            where = WeightsIn.NONE if constants is None else WeightsIn.STREAMED
            streamed = self._costs.cycles(part, along, extent, where, interior)
            cycles += streamed
            if constants is None:
                continue
            gain = streamed - self._costs.cycles(part, along, extent, copied, interior)
            if gain > 0:
                gains.append((gain, self._homes.constants_bytes(part, along, extent), part))
        extents, chosen = tuple(stripes.values()), frozenset[int]()
        yield Candidate(first, growth.stop, memory, cycles, along, extents, chosen)
        for gain, size, part in sorted(gains, key=lambda each: each[1] / each[0]):
            memory, cycles, chosen = memory + size, cycles - gain, chosen | {part}
            yield Candidate(first, growth.stop, memory, cycles, along, extents, chosen)


def _efficient(candidates: list[Candidate]) -> list[Candidate]:
    """The candidates that no other one of their group beats in memory and in cycles."""
    found: list[Candidate] = []
    best: dict[int, int] = {}
    for each in sorted(candidates, key=lambda each: (each.memory, each.cycles, each.first)):
        if each.first not in best or each.cycles < best[each.first]:
            best[each.first] = each.cycles
            found.append(each)
    return found
