"""Columns: nodes and bends of neighbouring ranks that lie straight below one another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from nnhal_pages.layout.trunks import Stretch

_MERGED = 2
"""Links into a node, or out of it: of two, one may be straight and one bent. Of more, the node is in the middle."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of nodes and bends."""

    roots: list[int]
    """For each node or bend, the uppermost one of its column."""
    shifts: list[float]
    """How far the middle of each node or bend is from that of its root."""


def columns_of(orders: Sequence[Sequence[int]], nodes: int, stretches: Sequence[Stretch]) -> Columns:
    """Make a column of each chain: of nodes that follow one another, and of the bends of a way.

    ``nodes`` is the number of nodes: larger numbers are bends. Columns do not cross; if two would, ways are straight.
    """
    count = sum(map(len, orders))
    roots, shifts = list(range(count)), [0.0] * count
    crossing = _crossing(orders, nodes, stretches)
    straight = {each.lower: each for each in _chains(nodes, stretches) if (each.upper, each.lower) not in crossing}
    at: dict[int, int] = {}
    for order in orders:
        taken = -1
        for node in order:
            each = straight.get(node)
            if each is not None and at[each.upper] > taken:
                roots[node] = roots[each.upper]
                shifts[node] = shifts[each.upper] + each.upper_x - each.lower_x
                taken = at[each.upper]
        at = {node: position for position, node in enumerate(order)}
    return Columns(roots, shifts)


def _chains(nodes: int, stretches: Sequence[Stretch]) -> Iterator[Stretch]:
    """Yield the stretches between what only one follows, and what follows only one, apart from ways aside."""
    out: Counter[int] = Counter()
    into: Counter[int] = Counter()
    for each in stretches:
        out[each.upper] += each.links
        into[each.lower] += each.links
    inner = [each for each in stretches if each.upper >= nodes and each.lower >= nodes]
    direct = [each for each in stretches if each.upper < nodes and each.lower < nodes]
    ends = [each for each in stretches if (each.upper < nodes) != (each.lower < nodes)]
    below, above = Counter(each.upper for each in direct), Counter(each.lower for each in direct)
    yield from inner
    for each in direct:
        single = below[each.upper] == 1 and above[each.lower] == 1
        if single and out[each.upper] <= _MERGED and into[each.lower] <= _MERGED:
            yield each
    yield from (each for each in ends if out[each.upper] == into[each.lower] == 1)


def _crossing(orders: Sequence[Sequence[int]], nodes: int, stretches: Sequence[Stretch]) -> Collection[tuple[int, int]]:
    """Return the pairs whose line crosses one between two bends."""
    above: list[list[int]] = [[] for _ in range(sum(map(len, orders)))]
    for stretch in stretches:
        above[stretch.lower].append(stretch.upper)
    found = set()
    for upper, lower in pairwise(orders):
        at = {node: position for position, node in enumerate(upper)}
        left, waiting = -1, []
        for position, node in enumerate(lower):
            waiting.append(node)
            bends = [other for other in above[node] if other >= nodes] if node >= nodes else []
            if bends or position == len(lower) - 1:
                right = at[bends[0]] if bends else len(upper)
                for each in waiting:
                    for other in above[each]:
                        if (each < nodes or other < nodes) and not left < at[other] < right:
                            found.add((other, each))
                left, waiting = right, []
    return found
