"""Static offsets for values in one block. Values that never live at the same time may share bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A value of ``size`` bytes that is written in step ``first`` and last read in step ``last``."""

    size: int
    first: int
    last: int
    alignment: int = 1


def plan_arena(values: Sequence[Lifetime], alignment: int) -> tuple[tuple[int, ...], int]:
    """Return the offset of each value, a multiple of ``alignment`` and of its own alignment, and the arena's bytes.

    Greedy by size: the largest values are placed first, each in the lowest gap between values that live at the same
    time.
    """
    placed: list[tuple[int, int, Lifetime]] = []
    offsets = [0] * len(values)
    for index in sorted(range(len(values)), key=lambda i: (-values[i].size, i)):
        value = values[index]
        size = round_up(value.size, alignment)
        own = lcm(alignment, value.alignment)
        offset = 0
        for start, end, other in sorted(placed, key=lambda entry: entry[:2]):
            if other.last < value.first or value.last < other.first:
                continue
            if offset + size <= start:
                break
            offset = max(offset, round_up(end, own))
        offsets[index] = offset
        placed.append((offset, offset + size, value))
    return tuple(offsets), max((end for _, end, _ in placed), default=0)


def round_up(size: int, alignment: int) -> int:
    """Return the smallest multiple of ``alignment`` that is at least ``size``."""
    return -(-size // alignment) * alignment
