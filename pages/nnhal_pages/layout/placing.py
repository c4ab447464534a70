"""Places of nodes and bends from left to right: columns, packed, and then moved to what they are linked with."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf

from nnhal_pages.layout.columns import Columns, columns_of
from nnhal_pages.layout.cycles import topological
from nnhal_pages.layout.trunks import Stretch

_ROUNDS = 24
_AXIS = 0.05
"""How much a column is drawn to the middle of the graph. A line to a node draws with 1, one to a bend with less."""
_BEND = 0.3
_WIDER = 2
"""How much wider than its widest rank a graph may be for its columns to be straight."""

_Room = dict[tuple[int, int], float]
"""The least distance of two columns that are beside each other in some rank, by the left and the right one."""


def middles_of(
    orders: Sequence[Sequence[int]], widths: Sequence[float], gaps: tuple[float, float], stretches: Sequence[Stretch]
) -> list[float]:
    """Return the middle of each node and bend.

    ``widths`` are those of the nodes. What comes after them is a bend, and as wide as a line. ``gaps`` are the least
    distances between two nodes, and beside a bend.
    """
    count, nodes = sum(map(len, orders)), len(widths)
    halves = [*(width / 2 for width in widths), *[0.0] * (count - nodes)]
    columns = columns_of(orders, nodes, stretches)
    room = _room(orders, halves, nodes, gaps, columns)
    places = _packed(count, room)
    loose = Columns(list(range(count)), [0.0] * count)
    loose_room = _room(orders, halves, nodes, gaps, loose)
    loose_places = _packed(count, loose_room)
    if _span(places) > _WIDER * _span(loose_places):
        columns, room, places = loose, loose_room, loose_places
    _settle(places, room, columns, nodes, stretches)
    return [places[root] + shift for root, shift in zip(columns.roots, columns.shifts, strict=True)]


def _room(
    orders: Sequence[Sequence[int]], halves: Sequence[float], nodes: int, gaps: tuple[float, float], columns: Columns
) -> _Room:
    room: _Room = {}
    for order in orders:
        for left, right in pairwise(order):
            gap = gaps[0] if left < nodes and right < nodes else gaps[1]
            least = halves[left] + halves[right] + gap + columns.shifts[left] - columns.shifts[right]
            pair = columns.roots[left], columns.roots[right]
            room[pair] = max(room.get(pair, least), least)
    return room


def _span(places: Sequence[float]) -> float:
    return max(places, default=0.0) - min(places, default=0.0)


def _packed(count: int, room: _Room) -> list[float]:
    """Put each column between the places that it has if all are as far left, and as far right, as they can be."""
    order = topological(count, list(room))
    rights, lefts = _neighbours(count, room)
    left, right = [0.0] * count, [0.0] * count
    for column in order:
        left[column] = max((left[other] + least for other, least in lefts[column]), default=0.0)
    for column in reversed(order):
        right[column] = min((right[other] - least for other, least in rights[column]), default=0.0)
    return [(one + other) / 2 for one, other in zip(left, right, strict=True)]


def _settle(places: list[float], room: _Room, columns: Columns, nodes: int, stretches: Sequence[Stretch]) -> None:
    """Move columns, as far as there is room, to the mean of where their lines would be straight."""
    count = len(places)
    order = topological(count, list(room))
    rights, lefts = _neighbours(count, room)
    pulls: list[list[tuple[int, float, float]]] = [[] for _ in range(count)]
    for each in stretches:
        upper, lower = columns.roots[each.upper], columns.roots[each.lower]
        if upper != lower:
            shift = columns.shifts[each.upper] + each.upper_x - columns.shifts[each.lower] - each.lower_x
            weight = 1.0 if each.upper < nodes and each.lower < nodes else _BEND * each.links
            pulls[lower].append((upper, shift, weight))
            pulls[upper].append((lower, -shift, weight))
    axis = (max(places, default=0.0) + min(places, default=0.0)) / 2
    for number in range(_ROUNDS):
        leftwards = number % 2 == 0
        for column in order if leftwards else reversed(order):
            total = sum((places[other] + shift) * weight for other, shift, weight in pulls[column]) + axis * _AXIS
            wanted = total / (sum(weight for _, _, weight in pulls[column]) + _AXIS)
            if (wanted < places[column]) == leftwards:
                low = max((places[other] + least for other, least in lefts[column]), default=-inf)
                high = min((places[other] - least for other, least in rights[column]), default=inf)
                places[column] = max(min(wanted, high), low)


def _neighbours(count: int, room: _Room) -> tuple[list[list[tuple[int, float]]], list[list[tuple[int, float]]]]:
    """Return, for each column, those on its right and those on its left, with their least distances."""
    rights: list[list[tuple[int, float]]] = [[] for _ in range(count)]
    lefts: list[list[tuple[int, float]]] = [[] for _ in range(count)]
    for (left, right), least in room.items():
        rights[left].append((right, least))
        lefts[right].append((left, least))
    return rights, lefts
