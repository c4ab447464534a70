"""Proposals: disjoint plans that cover every part, combined bottom-up by dynamic programming.

The memory of a proposal is the largest of its plans and its cycles are their sum. For a given limit of memory the
fastest proposal is therefore a shortest path over the plans that fit. It is exact: no set of proposals has to be
thinned.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.plans.candidates import PlanCandidate
from nnhal_cascade.plans.plan import Proposal


class Selection(NamedTuple):
    """A proposal, and the candidates that it is made of."""

    proposal: Proposal
    candidates: tuple[PlanCandidate, ...]


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
        self._graph, self._candidates, self._spilled = graph, candidates, spilled

    def fastest(self, limit: int | None = None, banned: Container[PlanCandidate] = ()) -> Selection | None:
        """Return the fastest proposal of at most ``limit`` bytes without ``banned`` plans, None if there is none.

        Of equally fast ones it is that of the least memory.
        """
        reached: list[tuple[int, int] | None] = [(0, 0)]
        ways: list[PlanCandidate | None] = []
        room = math.inf if limit is None else limit
        for ending in self._candidates:
            best: tuple[int, int] | None = None
            way = None
            for each in ending:
                before = reached[each.first]
                if before is None or (limit is not None and each.memory > limit) or (banned and each in banned):
                    continue
                waits, last = each.waits, ways[each.first - 1] if each.first else None
                if waits and last is not None and last.memory + each.copied_bytes <= room:
                    waits = max(0, waits - last.busy)
                price = before[0] + each.busy + waits, max(before[1], each.memory)
                if best is None or price < best:
                    best, way = price, each
            reached.append(best)
            ways.append(way)
        total = reached[-1]
        if total is None:
            return None
        chosen = _traced(ways)
        plans = tuple(each.plan(self._graph) for each in chosen)
        return Selection(Proposal(plans, total[1], total[0], self._spilled), chosen)

    def efficient(self, limit: int | None = None) -> Iterator[Selection]:
        """Yield the Pareto efficient proposals of at most ``limit`` bytes: each is slower than the last, and less."""
        while (found := self.fastest(limit)) is not None:
            yield found
            limit = found.proposal.memory - 1

    def least(self) -> int:
        """Return the memory of the smallest proposal. There must be a proposal."""
        needed: list[int | None] = [0]
        for ending in self._candidates:
            ways = (max(before, each.memory) for each in ending if (before := needed[each.first]) is not None)
            needed.append(min(ways, default=None))
        assert needed[-1] is not None, "plans that cover every part"
        return needed[-1]


def _traced(ways: Sequence[PlanCandidate | None]) -> tuple[PlanCandidate, ...]:
    """The plans of the way to the last part, in order."""
    found: list[PlanCandidate] = []
    stop = len(ways)
    while stop:
        way = ways[stop - 1]
        assert way is not None, "there is a way to each part of a way"
        found.append(way)
        stop = way.first
    return tuple(reversed(found))
