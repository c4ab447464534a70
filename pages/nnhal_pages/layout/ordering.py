"""The order of nodes and bends within their ranks, with few crossings."""

from __future__ import annotations

import itertools
from bisect import bisect_right, insort
from collections.abc import Sequence

from nnhal_pages.layout.trunks import Stretch

_SWEEPS = 8
_PATIENCE = 3
"""Sweeps without fewer crossings before it is enough."""


def orders_of(ranks: Sequence[int], nodes: int, stretches: Sequence[Stretch]) -> list[list[int]]:
    """Return what lies in each rank, from left to right. ``nodes`` is the number of nodes: larger numbers are bends."""
    above: list[list[int]] = [[] for _ in ranks]
    below: list[list[int]] = [[] for _ in ranks]
    for stretch in stretches:
        below[stretch.upper].append(stretch.lower)
        above[stretch.lower].append(stretch.upper)
    orders = _first_orders(ranks, below)
    best, fewest, stale = [list(order) for order in orders], crossings(orders, below), 0
    for sweep in range(_SWEEPS):
        if not fewest or stale == _PATIENCE:
            break
        _sweep(orders, nodes, below if sweep % 2 else above, upwards=bool(sweep % 2))
        found = crossings(orders, below)
        stale += 1
        if found < fewest:
            best, fewest, stale = [list(order) for order in orders], found, 0
    return best


def crossings(orders: Sequence[Sequence[int]], below: Sequence[Sequence[int]]) -> int:
    """Count how often two lines between neighbouring ranks cross."""
    count = 0
    for upper, lower in itertools.pairwise(orders):
        at = {node: position for position, node in enumerate(lower)}
        ends: list[int] = []
        for node in upper:
            found = sorted(at[other] for other in below[node])
            count += sum(len(ends) - bisect_right(ends, end) for end in found)
            for end in found:
                insort(ends, end)
    return count


def _first_orders(ranks: Sequence[int], below: Sequence[Sequence[int]]) -> list[list[int]]:
    """Order by the first visit of a search that follows the lines downwards."""
    orders: list[list[int]] = [[] for _ in range(max(ranks, default=-1) + 1)]
    seen = [False] * len(ranks)
    for start in sorted(range(len(ranks)), key=lambda node: ranks[node]):
        way = [start]
        while way:
            node = way.pop()
            if not seen[node]:
                seen[node] = True
                orders[ranks[node]].append(node)
                way += reversed(below[node])
    return orders


def _sweep(orders: list[list[int]], nodes: int, beside: Sequence[Sequence[int]], upwards: bool) -> None:
    """Sort each rank by the mean position of what its members are linked with in the rank before it.

    Bends come before nodes of the same position, so that a way that many nodes share is always on the same side.
    """
    at: dict[int, int] = {}
    for order in reversed(orders) if upwards else orders:
        wanted: dict[int, tuple[float, bool]] = {}
        for position, node in enumerate(order):
            others = beside[node]
            mean = sum(at[other] for other in others) / len(others) if others else position
            wanted[node] = mean, node < nodes
        order.sort(key=wanted.__getitem__)
        at.update((node, position) for position, node in enumerate(order))
