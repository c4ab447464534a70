"""Proposals: disjoint plans that cover every part, combined bottom-up by dynamic programming.

The memory of a proposal is the largest of its plans and its cycles are their sum. For a given limit of memory the
fastest proposal is therefore a shortest path over the plans that fit. It is exact: no set of proposals has to be
thinned.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from functools import cached_property
from itertools import tee
from typing import NamedTuple

from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.plans.candidates import PlanCandidate
from nnhal_cascade.plans.plan import Plan, Proposal

_RUNGS = 16
"""How many limits of memory are tried at least between one and its double."""


class _Ways(NamedTuple):
    """The fastest way to before each part, and to the end."""

    cycles: list[float]
    """Infinite if there is no way."""
    memory: list[int]
    last: list[PlanCandidate | None]
    """The last plan of each way; None at the start."""
    holds: list[int]
    """Down to how many bytes it stays the fastest, unless those that it starts from change."""

    def take(self, other: _Ways, stop: int) -> None:
        """Take in the next part: the way to it is that of others."""
        self.cycles.append(other.cycles[stop])
        self.memory.append(other.memory[stop])
        self.last.append(other.last[stop])
        self.holds.append(other.holds[stop])


class Selection:
    """A proposal, and the candidates that it is made of."""

    def __init__(self, search: ProposalSearch, ways: _Ways, room: float) -> None:
        self._search, self.ways, self.room = search, ways, room
        self.candidates = _traced(ways.last)
        self.memory, self.cycles = ways.memory[-1], int(ways.cycles[-1])

    @cached_property
    def proposal(self) -> Proposal:
        plans = tuple(map(self._search.plan, self.candidates))
        return Proposal(plans, self.memory, self.cycles, self._search.spilled)


class ProposalSearch:
    """The proposals over some plans: for each part of a graph, in order, the candidates that end with it.

    Constants of a plan are taken to be copied while the plan before runs if there is room for both: addresses decide
    later whether they are.
    """

    def __init__(
        self,
        graph: CascaderGraph,
        candidates: Sequence[Sequence[PlanCandidate]],
        spilled: frozenset[int] = frozenset(),
    ) -> None:
        self.spilled = spilled
        """Tensors whose home is not the working memory."""
        self._graph = graph
        self._candidates = [sorted(ending, key=lambda each: each.memory) for ending in candidates]
        self._starts = [frozenset(each.first for each in ending) for ending in candidates]
        self._plans: dict[PlanCandidate, Plan] = {}
        self._within: dict[int, Iterator[Selection]] = {}

    def plan(self, candidate: PlanCandidate) -> Plan:
        """Return a candidate as a plan, which is made once."""
        found = self._plans.get(candidate)
        if found is None:
            found = self._plans[candidate] = candidate.plan(self._graph)
        return found

    def fastest(
        self, limit: int | None = None, banned: Container[PlanCandidate] = (), near: Selection | None = None
    ) -> Selection | None:
        """Return the fastest proposal of at most ``limit`` bytes without ``banned`` plans, None if there is none.

        Of equally fast ones it is that of the least memory. ``near`` is what was found with no more banned plans: if it
        was for no less memory, only what differs from it is searched for.
        """
        room = math.inf if limit is None else limit
        known = near.ways if near is not None and room <= near.room else None
        ways = _Ways([0], [0], [None], [0])
        changed = set[int]()
        for stop, (ending, starts) in enumerate(zip(self._candidates, self._starts, strict=True), 1):
            if known is not None and changed.isdisjoint(starts):
                last = known.last[stop]
                if last is None or (known.holds[stop] <= room and not (banned and last in banned)):
                    ways.take(known, stop)
                    continue
            _extend(ways, ending, room, banned)
            if known is not None and any(ways[each][stop] != known[each][stop] for each in range(3)):
                changed.add(stop)
        return None if ways.cycles[-1] == math.inf else Selection(self, ways, room)

    def within(self, most: int) -> Iterator[Selection]:
        """Yield the fastest proposals within less and less memory, from ``most`` bytes on: each takes less.

        The limits below a number of bytes do not depend on ``most``. Each proposal is searched for once.
        """
        self._within[most], found = tee(self._within.get(most) or self._descending(most))
        return found

    def _descending(self, most: int) -> Iterator[Selection]:
        limit, before = most, None
        while (found := self.fastest(limit, near=before)) is not None:
            if before is None or found.candidates != before.candidates:
                yield found
            if not found.memory:
                return
            before = found
            # With less room, constants of fewer plans are copied early, so the next proposal may be another one.
            limit = max(found.memory - 1, _rung_below(limit))

    def least(self) -> int:
        """Return the memory of the smallest proposal. There must be a proposal."""
        needed: list[int | None] = [0]
        for ending in self._candidates:
            ways = (max(before, each.memory) for each in ending if (before := needed[each.first]) is not None)
            needed.append(min(ways, default=None))
        assert needed[-1] is not None, "plans that cover every part"
        return needed[-1]


def _extend(ways: _Ways, ending: Sequence[PlanCandidate], room: float, banned: Container[PlanCandidate]) -> None:
    """Take in the next part: ``ending`` are the plans that end with it, by their memory."""
    fastest, least, last, holds = math.inf, 0, None, 0
    for each in ending:
        size = needed = each.memory
        if size > room:
            break
        cycles = ways.cycles[each.first] + each.busy
        if cycles > fastest or (banned and each in banned):
            continue
        before = ways.last[each.first]
        if each.waits:
            waits = each.waits
            if before is not None and before.memory + each.copied_bytes <= room:
                waits = max(0, waits - max(0, before.busy - before.moved))
                needed = max(size, before.memory + each.copied_bytes)
            cycles += waits
        most = max(ways.memory[each.first], size)
        if cycles < fastest or (cycles == fastest and most < least):
            fastest, least, last, holds = cycles, most, each, needed
    ways.cycles.append(fastest)
    ways.memory.append(least)
    ways.last.append(last)
    ways.holds.append(holds)


def _traced(last: Sequence[PlanCandidate | None]) -> tuple[PlanCandidate, ...]:
    """The plans of the way to the end, in order."""
    found: list[PlanCandidate] = []
    stop = len(last) - 1
    while stop:
        way = last[stop]
        assert way is not None, "there is a way to each part of a way"
        found.append(way)
        stop = way.first
    return tuple(reversed(found))


def _rung_below(size: int) -> int:
    """The largest power of the sixteenth root of 2, rounded down, that is less than a size."""
    power = math.ceil(_RUNGS * math.log2(size)) if size > 1 else 0
    while power and int(2 ** (power / _RUNGS)) >= size:
        power -= 1
    return int(2 ** (power / _RUNGS)) if power else 0
