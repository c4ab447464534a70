"""A memory map over the time of a run: which bytes of the tiles hold what, from which cycle to which."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from nnhal_mlip.compiler.memory_map import TileMemoryRange
from nnhal_mlip.timing.queues import ProgramTimeline


class OcmUse(NamedTuple):
    """Bytes of a tile's memory that hold one thing for some time."""

    start: int
    stop: int
    begin: int
    """Cycles."""
    end: int
    what: str
    pinned: bool


def uses_by_tile(ranges: Iterable[TileMemoryRange], times: ProgramTimeline) -> dict[int, tuple[OcmUse, ...]]:
    """Return what each tile's memory holds, by address. What is pinned is there all the time."""
    tiles: dict[int, list[OcmUse]] = {}
    stages = times.stages
    for each in ranges:
        begin = stages[each.first_stage].ready if each.first_stage < len(stages) and not each.pinned else 0
        end = stages[each.last_stage].end if each.last_stage < len(stages) and not each.pinned else times.total
        use = OcmUse(each.start, each.stop, begin, max(end, begin), each.what, each.pinned)
        tiles.setdefault(each.tile, []).append(use)
    return {tile: tuple(sorted(tiles[tile])) for tile in sorted(tiles)}


def alike_tiles(tiles: dict[int, tuple[OcmUse, ...]]) -> dict[tuple[OcmUse, ...], list[int]]:
    """Return the tiles of each different map."""
    groups: dict[tuple[OcmUse, ...], list[int]] = {}
    for tile, uses in tiles.items():
        groups.setdefault(uses, []).append(tile)
    return groups
