"""Proposals: disjoint plans that cover every part, combined bottom-up by dynamic programming.

The memory of a proposal is the largest of its plans and its cycles are their sum. For a given limit of memory the fastest
proposal is therefore a shortest path over the plans that fit, and it is exact: no set of proposals has to be thinned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnhal_devices.ethos_u.cascader.graph.cascader_graph import CascaderGraph
from nnhal_devices.ethos_u.cascader.plans.candidates import Candidate
from nnhal_devices.ethos_u.cascader.plans.plan import Proposal


def fastest_within(
    graph: CascaderGraph, candidates: Sequence[Sequence[Candidate]], limit: int | None, spilled: frozenset[int]
) -> Proposal | None:
    """Return the fastest proposal of at most ``limit`` bytes; of equally fast ones that of the least memory."""
    best: list[tuple[int, int]] = [(0, 0)]
    chosen: list[Candidate] = []
    unreachable = (1 << 62, 0)
    for ending in candidates:
        found, way = unreachable, None
        for each in ending:
            if limit is not None and each.memory > limit:
                break
            cycles, memory = best[each.first]
            price = cycles + each.cycles, max(memory, each.memory)
            if price < found:
                found, way = price, each
        best.append(found)
        chosen.append(way)  # type: ignore[arg-type]
    ...


def efficient(...)
