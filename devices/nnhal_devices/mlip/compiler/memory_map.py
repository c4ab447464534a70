"""What lies where in the tiles' memory, and how long."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal_devices.mlip.compiler.planning.buffers import OcmBufferUse
from nnhal_devices.mlip.compiler.planning.plans import TilePlan


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
    """``value conv1``, ``weights of conv1``, ``stripe of conv1``."""
    pinned: bool
    """Whether it stays from run to run."""


def memory_map(plan: TilePlan) -> tuple[TileMemoryRange, ...]:
    """Return the memory map of a plan: tile by tile, in the order of time, then of addresses."""
    setting, stages = plan.setting, plan.buffers.stages
    kernels = setting.housed.network.kernels
    last = len(stages) - 1
    ranges = []
    for buffer in plan.buffers.buffers():
        place = kernels[setting.layers[buffer.layer].kernel].place
        match buffer.use:
            case OcmBufferUse.WEIGHTS:
                what = f"weights of {place}"
            case OcmBufferUse.VALUE:
                what = f"value {buffer.root}"
            case _:
                what = f"stripe of {buffer.root}"
        begin, end = (0, last) if buffer.pinned else (buffer.begin, buffer.end)
        address = plan.address(buffer)
        first_layer, last_layer = (setting.layers[stages[min(stage, last)].layer].kernel for stage in (begin, end))
        held = (address, address + buffer.bytes, begin, end, first_layer, last_layer, what, buffer.pinned)
        ranges += [TileMemoryRange(tile, *held) for tile in buffer.boxes]
    return tuple(sorted(ranges, key=lambda one: (one.tile, one.first_stage, one.start, one.what)))
