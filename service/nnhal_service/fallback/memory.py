"""Lay out the values between steps: one arena for each kind of memory, with static offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm

from nnhal.memory import Lifetime, plan_arena
from nnhal_service.fallback.values import PassedValue

_LEAST_ALIGNMENT = 64
"""Bytes, as the HAL recommends for arguments."""


@dataclass(frozen=True, slots=True)
class MemoryPlacement:
    """The kind of a value's memory, and its offset in the arena of that kind."""

    kind: str
    offset: int


@dataclass(frozen=True, slots=True)
class FallbackLayout:
    """The places of all values, by operand, and the size of each arena in bytes, by kind."""

    placements: Mapping[int, MemoryPlacement]
    sizes: Mapping[str, int]

    @property
    def total_bytes(self) -> int:
        """Bytes of all arenas."""
        return sum(self.sizes.values())


def lay_out(values: Sequence[PassedValue], align: bool = True) -> FallbackLayout:
    """Lay out values so that those which never live at the same time share bytes.

    Each value is aligned to the least common multiple of what its devices need. Without ``align`` none is aligned,
    which shows the cost of alignment.
    """
    placements: dict[int, MemoryPlacement] = {}
    sizes: dict[str, int] = {}
    for kind in sorted({value.kind for value in values}):
        own = [value for value in values if value.kind == kind]
        lifetimes = [
            Lifetime(v.size, v.first, v.last, lcm(*(edge.alignment for edge in v.edges)) if align else 1) for v in own
        ]
        offsets, size = plan_arena(lifetimes, _LEAST_ALIGNMENT if align else 1)
        sizes[kind] = size
        placements |= {v.operand: MemoryPlacement(kind, offset) for v, offset in zip(own, offsets, strict=True)}
    return FallbackLayout(placements, sizes)
