"""Comparison of a frontier with points of others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class Point(NamedTuple):
    """Cost of a schedule."""

    memory: int
    """Bytes."""
    cycles: int


def dominating(point: Point, frontier: Sequence[Point]) -> Point | None:
    """Return the fastest point of a frontier that needs no more memory and no more cycles, None if there is none."""
    found = [own for own in frontier if own.memory <= point.memory and own.cycles <= point.cycles]
    return min(found, key=lambda own: (own.cycles, own.memory), default=None)


def is_monotone(frontier: Sequence[Point]) -> bool:
    """Return whether more memory is never slower."""
    ordered = sorted(frontier)
    return all(
        more.cycles <= less.cycles if more.memory > less.memory else more == less for less, more in pairwise(ordered)
    )
