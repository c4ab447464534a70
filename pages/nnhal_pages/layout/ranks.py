"""The rank of each node: every link goes to a higher one, and no rank is wider than a limit if it has two nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from nnhal_pages.layout.cycles import Pair, topological
from nnhal_pages.layout.shapes import NodeShape


def ranks_of(shapes: Sequence[NodeShape], pairs: Sequence[Pair], limit: float, gap: float) -> list[int]:
    """Return the rank of each node, from 0 on. The pairs have no cycle.

    First each node is as high as it can be, in the order of their numbers, so that a rank that is full is followed by
    another. Then those from which more links go than come in are lowered, to be near what reads them. Nodes that are
    first lie in rank 0 and those that are last in the last rank, however many there are.
    """
    before: list[list[int]] = [[] for _ in shapes]
    after: list[list[int]] = [[] for _ in shapes]
    for source, target in pairs:
        after[source].append(target)
        before[target].append(source)
    order = topological(len(shapes), pairs)
    used: defaultdict[int, float] = defaultdict(float)
    ranks = [0] * len(shapes)
    lowest = int(any(shape.first for shape in shapes))
    for node in order:
        if not shapes[node].first:
            rank = max((ranks[other] + 1 for other in before[node]), default=lowest)
            room = limit - shapes[node].width
            while used[rank] > room and used[rank] > 0:
                rank += 1
            ranks[node] = rank
            used[rank] += shapes[node].width + gap
    for node in reversed(order):
        if shapes[node].first or len(after[node]) <= len(before[node]):
            continue
        wanted = min(ranks[other] for other in after[node]) - 1
        room = limit - shapes[node].width
        rank = next((rank for rank in range(wanted, ranks[node], -1) if used[rank] <= room), ranks[node])
        used[ranks[node]] -= shapes[node].width + gap
        used[rank] += shapes[node].width + gap
        ranks[node] = rank
    inner = max((rank for rank, shape in zip(ranks, shapes, strict=True) if not shape.last), default=-1)
    return [inner + 1 if shape.last else rank for rank, shape in zip(ranks, shapes, strict=True)]
