"""Contents of the tiles' memory over time: in stages, and in cycles of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from nnhal_mlip.compiler.planning.buffers import OcmBufferUse
from nnhal_mlip.compiler.planning.plans import TilePlan
from nnhal_mlip.timing.queues import ProgramTimeline


@dataclass(frozen=True, slots=True)
class TileMemoryRange:
    """Bytes of a tile's memory that hold one thing for some time."""

    tile: int
    start: int
    stop: int
    first_stage: int
    """The stage during which the first byte arrives."""
    last_stage: int
    """The stage during which the last byte is read, or stored; the number of stages if that is after the last."""
    first_layer: int
    """The layer of that stage, an index of ``MlipProgram.layers``."""
    last_layer: int
    what: str
    """``result of conv1``, ``weights of conv1``, ``stripe of conv1``; ``value image`` if no layer here computes it."""
    pinned: bool
    """True if it stays from run to run."""


def memory_map(plan: TilePlan) -> tuple[TileMemoryRange, ...]:
    """Return the memory map of a plan: tile by tile, in the order of time, then of addresses."""
    setting, stages = plan.setting, plan.buffers.stages
    network = setting.aliased.network
    kernels = network.kernels
    makers = {layer.output.value: layer.kernel for layer in network.layers}
    last = len(stages) - 1
    ranges = []
    for buffer in plan.buffers.buffers():
        place = kernels[setting.layers[buffer.layer].kernel].place
        made = kernels[makers[buffer.root]].place if buffer.root in makers else ""
        match buffer.use:
            case OcmBufferUse.WEIGHTS:
                what = f"weights of {place}"
            case OcmBufferUse.VALUE:
                what = f"result of {made}" if made else f"value {buffer.root}"
            case _:
                what = f"stripe of {made or buffer.root}"
        begin, end = (0, last) if buffer.pinned else (buffer.begin, buffer.end)
        address = plan.address(buffer)
        first_layer, last_layer = (setting.layers[stages[min(stage, last)].layer].kernel for stage in (begin, end))
        held = (address, address + buffer.bytes, begin, end, first_layer, last_layer, what, buffer.pinned)
        ranges += [TileMemoryRange(tile, *held) for tile in buffer.boxes]
    return tuple(sorted(ranges, key=lambda one: (one.tile, one.first_stage, one.start, one.what)))


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
    groups: dict[tuple[OcmUse, ...], list[int]] = {}
    for tile, uses in tiles.items():
        groups.setdefault(uses, []).append(tile)
    return groups
