"""Figures of a loaded network on mlip: the memory of its tiles, and what they do over time.

Binaries run one after the other, so the time of each begins when that of the one before ends. All times are modelled.
Names are the user's if the model has some. Otherwise operations are named by their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from nnhal_devices.figures import (
    BY_SCHEDULE,
    MemoryFigure,
    MemorySpan,
    OperationTimes,
    TimedOperation,
    TimeFigure,
    TimeSpan,
    WorkloadFigures,
)
from nnhal_mlip.compiler.memory_map import OcmUse, TileMemoryRange, alike_tiles, uses_by_tile
from nnhal_mlip.program.program import OCM_BYTES, MlipProgram
from nnhal_mlip.simulator.simulator import Simulator
from nnhal_mlip.timing.queues import StageSpan

_UNIT = "cycles"
_DMA = "DMA"
_VALUE = "value "
_KINDS = {"result": "feature map", "value": "feature map", "weights": "weights", "stripe": "stripe"}
"""By the first word of what a memory map says."""


def network_figures(simulators: Sequence[Simulator], memory: Sequence[Sequence[TileMemoryRange]]) -> WorkloadFigures:
    begins = list(accumulate((simulator.timeline.total for simulator in simulators), initial=0))
    tiles = max((simulator.program.tiles for simulator in simulators), default=0)
    lanes = (*(f"tile {tile}" for tile in range(tiles)), _DMA)
    spans = [
        span for simulator, begin in zip(simulators, begins, strict=False) for span in _time(simulator, begin, tiles)
    ]
    return WorkloadFigures(
        tuple(_memories(simulators, memory, begins)),
        (TimeFigure("Tiles and the DMA engine", _UNIT, lanes, tuple(spans)),) if spans else (),
    )


def network_times(simulators: Sequence[Simulator], numbers: Mapping[str, int]) -> OperationTimes:
    """Return the cycles in which tiles compute each layer of binaries: those of the tile that takes longest.

    ``numbers`` are the operations of the model, by what they are called.
    """
    times = []
    for simulator in simulators:
        cycles: dict[int, list[int]] = {}
        for stage in simulator.timeline.stages:
            by_tile = cycles.setdefault(stage.layer, [0] * simulator.program.tiles)
            for tile in range(simulator.program.tiles):
                by_tile[tile] += max((span.end for span in stage.tasks if span.tile == tile), default=stage.copied)
                by_tile[tile] -= stage.copied
        for layer, by_tile in cycles.items():
            found = tuple(numbers[name] for name in simulator.program.layers[layer].user_names if name in numbers)
            times.append(TimedOperation(_title(simulator.program, layer), found, max(by_tile)))
    return OperationTimes(tuple(times), _UNIT, True, BY_SCHEDULE)


def _memories(
    simulators: Sequence[Simulator], memory: Sequence[Sequence[TileMemoryRange]], begins: Sequence[int]
) -> Iterator[MemoryFigure]:
    """Yield the memory of each tile over all binaries; tiles that hold the same share a figure."""
    tiles: dict[int, tuple[OcmUse, ...]] = {}
    for simulator, ranges, begin in zip(simulators, memory, begins, strict=False):
        for tile, uses in uses_by_tile(ranges, simulator.timeline).items():
            moved = tuple(use._replace(begin=use.begin + begin, end=use.end + begin) for use in uses)
            tiles[tile] = (*tiles.get(tile, ()), *moved)
    for held, alike in alike_tiles(tiles).items():
        name = f"OCM of tile {alike[0]}" if len(alike) == 1 else f"OCM of tiles {', '.join(map(str, alike))}"
        yield MemoryFigure(name, OCM_BYTES, _UNIT, tuple(_held(use) for use in held))


def _held(use: OcmUse) -> MemorySpan:
    kind = _KINDS[use.what.partition(" ")[0]]
    name = use.what.removeprefix(_VALUE)
    size = use.stop - use.start
    return MemorySpan(name, use.start, size, use.begin, use.end, f"pinned {kind}" if use.pinned else kind)


def _time(simulator: Simulator, start: int, dma: int) -> Iterator[TimeSpan]:
    """Yield what tiles and the DMA engine do in one binary. ``dma`` is the lane of the engine."""
    program = simulator.program
    for stage in simulator.timeline.stages:
        title = _title(program, stage.layer)
        for tile in range(program.tiles):
            for name, begin, end, kind in _stage(stage, tile, title):
                if end > begin:
                    yield TimeSpan(tile, name, start + begin, start + end, kind)
    for span in simulator.timeline.transfers:
        transfer = program.transfers[span.transfer]
        name = f"{'store' if transfer.store else 'load'} {transfer.ddr.name.lower()} of {_title(program, span.layer)}"
        yield TimeSpan(dma, name, start + span.begin, start + span.end, "copy")


def _stage(stage: StageSpan, tile: int, title: str) -> Iterator[tuple[str, int, int, str]]:
    """Yield what a tile does in a stage: name, begin, end and kind."""
    tasks = [span for span in stage.tasks if span.tile == tile]
    done = max((span.end for span in tasks), default=stage.copied)
    yield f"{title} waits for the DMA engine", stage.ready, stage.begin, "wait"
    yield f"copies between tiles for {title}", stage.begin, stage.copied, "copy"
    yield title, stage.copied, done, "compute"
    yield "waits for other tiles", done, stage.end, "wait"


def _title(program: MlipProgram, layer: int) -> str:
    record = program.layers[layer]
    return " + ".join(record.user_names) or record.name
