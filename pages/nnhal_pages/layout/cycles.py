"""A graph without cycles, and an order of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

Pair = tuple[int, int]


def reversed_links(count: int, pairs: Sequence[Pair]) -> set[int]:
    """Return the numbers of the pairs to turn round so that the graph has no cycle. Pairs of one node are left out."""
    after: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for number, (source, target) in enumerate(pairs):
        if source != target:
            after[source].append((target, number))
    found: set[int] = set()
    state = [0] * count  # 1 while a node is on the way, 2 after it
    for start in range(count):
        if state[start]:
            continue
        state[start] = 1
        way = [(start, iter(after[start]))]
        while way:
            node, rest = way[-1]
            for target, number in rest:
                if state[target] == 1:
                    found.add(number)
                elif not state[target]:
                    state[target] = 1
                    way.append((target, iter(after[target])))
                    break
            else:
                state[node] = 2
                way.pop()
    return found


def topological(count: int, pairs: Sequence[Pair]) -> list[int]:
    """Return the nodes of a graph without cycles, each after those before it, otherwise by their numbers."""
    after: list[list[int]] = [[] for _ in range(count)]
    waits = [0] * count
    for source, target in pairs:
        after[source].append(target)
        waits[target] += 1
    ready = [node for node in range(count) if not waits[node]]
    heapify(ready)
    order = []
    while ready:
        node = heappop(ready)
        order.append(node)
        for target in after[node]:
            waits[target] -= 1
            if not waits[target]:
                heappush(ready, target)
    return order
