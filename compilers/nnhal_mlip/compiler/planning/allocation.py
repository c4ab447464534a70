"""Addresses for buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnhal.memory.arena import Lifetime, plan_arena, round_up
from nnhal_mlip.compiler.planning.buffers import OcmBuffer
from nnhal_mlip.compiler.planning.setting import ALIGNMENT


@dataclass(frozen=True, slots=True)
class AllocationTotals:
    """Bytes of each tile that addresses take."""

    pinned: int
    scratch: int


def place(buffers: Sequence[OcmBuffer]) -> tuple[dict[int, int], AllocationTotals]:
    """Return an offset for each buffer by its identity, and what they take: the largest first, each as low as it can.

    Pinned buffers have offsets from 0, the others too.
    """
    offsets: dict[int, int] = {}
    pinned = 0
    for buffer in buffers:
        if buffer.pinned:
            offsets[id(buffer)] = pinned
            pinned += aligned(buffer.bytes)
    others = sorted(
        (buffer for buffer in buffers if not buffer.pinned),
        key=lambda buffer: (buffer.begin, buffer.end, buffer.layer, buffer.root),
    )
    lifetimes = [Lifetime(aligned(buffer.bytes), buffer.begin, buffer.end) for buffer in others]
    places, scratch = plan_arena(lifetimes, ALIGNMENT)
    offsets |= {id(buffer): place for buffer, place in zip(others, places, strict=True)}
    return offsets, AllocationTotals(pinned, scratch)


def live_bytes(buffers: Sequence[OcmBuffer], stages: int) -> list[int]:
    """Return how many bytes of a tile are in use in each stage, without pinned buffers."""
    changes = [0] * (stages + 2)
    for buffer in buffers:
        if not buffer.pinned:
            changes[min(buffer.begin, stages)] += aligned(buffer.bytes)
            changes[min(buffer.end, stages) + 1] -= aligned(buffer.bytes)
    result, total = [], 0
    for change in changes[:-1]:
        total += change
        result.append(total)
    return result


def aligned(count: int) -> int:
    """Return bytes rounded up to whole units of alignment."""
    return round_up(count, ALIGNMENT)
