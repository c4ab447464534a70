"""Static offsets for values in one block. Values that never live at the same time may share bytes."""

from __future__ import annotations

from collections import defaultdict
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

    Greedy by size: the largest values are placed first, of equal ones the earlier, each in the lowest gap between
    values that live at the same time.
    """
    in_step: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    offsets, peak = [0] * len(values), 0
    for index in sorted(range(len(values)), key=lambda i: (-values[i].size, i)):
        value = values[index]
        size = round_up(value.size, alignment)
        own = lcm(alignment, value.alignment)
        steps = range(value.first, value.last + 1)
        offset = 0
        for start, end in sorted({span for step in steps for span in in_step[step]}):
            if offset + size <= start:
                break
            offset = max(offset, round_up(end, own))
        offsets[index] = offset
        for step in steps:
            in_step[step].append((offset, offset + size))
        peak = max(peak, offset + size)
    return tuple(offsets), peak


def round_up(size: int, alignment: int) -> int:
    """Return the smallest multiple of ``alignment`` that is at least ``size``."""
    return -(-size // alignment) * alignment
